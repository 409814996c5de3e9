"""Words of the page: verdicts as sentences, numbers, and foreign text that is safe to look at."""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Iterable

from markupsafe import Markup, escape

from foxflow import flow

LONGEST = 500
"""Characters of any foreign text that are shown; commands are shown whole."""

SYMBOLS = {flow.EQUAL: "=", flow.DIVERGED: "≠", flow.NOT_COMPARABLE: "?", flow.INCOMPLETE: "…"}
NAMES = {
    flow.EQUAL: "Equal",
    flow.DIVERGED: "Diverged",
    flow.NOT_COMPARABLE: "Not comparable",
    flow.INCOMPLETE: "Incomplete",
}


def visible(text: str) -> str:
    """Text whose control and direction characters are written out, as `\\u{202e}`: what is read is what is there.

    So are lone surrogates, which no file can hold.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"\\u{{{ord(c):x}}}" if _unseen(c) else c for c in text)


def _unseen(c: str) -> bool:
    return unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def shown(value: object) -> object:
    """What the template puts out: markup as it is, all else as visible text of at most LONGEST characters."""
    if isinstance(value, Markup):
        return value
    text = visible(str(value)[: LONGEST + 1])
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… (cut)"


def command(words: Iterable[str]) -> Markup:
    """A command line, quoted for a shell, whole."""
    return whole(shlex.join(words))


def whole(line: str) -> Markup:
    """Foreign text that is never cut."""
    return escape(visible(line))


def number(value: float | str | None) -> str:
    """A size, exact for integers, nine digits for floats, which tell float32 values apart; a dash for none."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return {"nan": "NaN", "inf": "Inf"}.get(value, value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.9g}"


def count(many: int, thing: str) -> str:
    """«1 buffer», «1,200 buffers»."""
    return f"{many:,} {thing}{'' if many == 1 else 's'}"


def moment(where: flow.Where) -> str:
    """«step 2, iteration 1» or «eval step 7»."""
    return _step(where) if where.k is None else f"{_step(where)}, iteration {where.k}"


def place(where: flow.Where) -> str:
    """«step 2, iteration 1, q_logits of group H», safe to look at and never long."""
    return str(shown(f"{moment(where)}, {_buffer(where)}"))


def _step(where: flow.Where) -> str:
    return f"step {where.step}" if where.phase == flow.TRAIN else f"{where.phase} step {where.step}"


def headline(found: flow.Comparison) -> str:
    """The verdict as a sentence."""
    first = found.first
    if found.verdict == flow.EQUAL:
        return (
            f"The same run: {count(found.compared, 'buffer')} over {count(len(found.steps), 'step')} "
            f"{'is' if found.compared == 1 else 'are'} equal to the last bit."
        )
    if found.verdict == flow.DIVERGED and first is not None:
        differ = "differs" if found.differing == 1 else "differ"
        return (
            f"Not the same run: they part at {_step(first)}, in {_buffer(first)}. "
            f"{found.differing:,} of {count(found.compared, 'buffer')} {differ}."
        )
    if found.verdict == flow.DIVERGED:
        return f"Not the same run: {found.reason or 'they differ'}."
    if found.verdict == flow.NOT_COMPARABLE:
        return f"Not comparable: {found.reason or 'no reason is given'}."
    nothing = "Nothing that was compared differs" if found.compared else "Nothing was compared"
    return f"{nothing}, but the records are incomplete: {found.reason or 'no reason is given'}."


def _buffer(where: flow.Where) -> str:
    return f"{where.buffer} of group {where.group}" if where.group else where.buffer
