"""What two manifests say of being comparable, and what the runs' summaries say."""

from __future__ import annotations

import json
import re
from typing import Any

from foxflow import flow

FIELDS = ("seed", "config", "source", "data", "arithmetic")
"""Another value here, and two runs need not be equal. A run whose bits hold for one device only names it in
`arithmetic`."""

SUMMARIES = ("eval_summary.json", "alpha_rl_train_summary.json")
DIAG = "diag.jsonl"

_ABSENT = object()
_STEP, _PHASE = re.compile(rb'"step":\s*(\d+)'), re.compile(rb'"phase":\s*"(\w+)"')
_ELAPSED = re.compile(rb',\s*"elapsed_s":\s*[^,{}\[\]"]+\}\s*$')

Unlike = tuple[tuple[str, str, str], ...]


def unlike(a: flow.Record, b: flow.Record, fields: tuple[str, ...]) -> Unlike:
    """Leaves that differ under some fields of two manifests, as (dotted name, A's JSON, B's JSON)."""
    one, other = json.loads(a.manifest), json.loads(b.manifest)
    found: list[tuple[str, str, str]] = []
    for name in fields:
        leaves_a, leaves_b = dict(_leaves(name, one.get(name))), dict(_leaves(name, other.get(name)))
        for leaf in dict.fromkeys((*leaves_a, *leaves_b)):
            texts = _text(leaves_a.get(leaf, _ABSENT)), _text(leaves_b.get(leaf, _ABSENT))
            if texts[0] != texts[1]:
                found.append((leaf, *texts))
    return tuple(found)


def _leaves(name: str, value: Any) -> list[tuple[str, Any]]:
    """Maps taken apart to their leaves; lists are leaves."""
    if not isinstance(value, dict) or not value:
        return [(name, value)]
    return [leaf for key in value for leaf in _leaves(f"{name}.{key}", value[key])]


def _text(value: Any) -> str:
    return "absent" if value is _ABSENT else json.dumps(value, sort_keys=True)


def files(a: flow.Record, b: flow.Record) -> tuple[tuple[str, bool | None], ...]:
    """Whether the summaries are byte-equal, and diag.jsonl but for elapsed_s; None where a side lacks something."""
    found: list[tuple[str, bool | None]] = []
    for name in SUMMARIES:
        one, other = a.read(name), b.read(name)
        if one is not None or other is not None:
            found.append((name, None if one is None or other is None else one == other))
    one, other = a.read(DIAG), b.read(DIAG)
    if one is not None or other is not None:
        found.append((DIAG, None if one is None or other is None else _diag_equal(one, other)))
    return tuple(found)


def _diag_equal(a: bytes, b: bytes) -> bool | None:
    """False where a common leaf differs, else None where a side lacks a line or leaf, else True."""
    lines_a, lines_b = _by_step(a), _by_step(b)
    whole: bool | None = True if lines_a.keys() == lines_b.keys() else None
    for at in lines_a.keys() & lines_b.keys():
        if _ELAPSED.sub(b"}", lines_a[at]) == _ELAPSED.sub(b"}", lines_b[at]):
            continue
        leaves_a, leaves_b = (dict(_leaves("", _parsed(lines[at]))) for lines in (lines_a, lines_b))
        for leaves in (leaves_a, leaves_b):
            leaves.pop(".elapsed_s", None)
        if any(_text(leaves_a[leaf]) != _text(leaves_b[leaf]) for leaf in leaves_a.keys() & leaves_b.keys()):
            return False
        if leaves_a.keys() != leaves_b.keys():
            whole = None
    return whole


def _by_step(text: bytes) -> dict[tuple[bytes, ...], bytes]:
    """Lines by their step and phase, as written at the start of each, and by number among those alike."""
    found: dict[tuple[bytes, ...], bytes] = {}
    for line in text.splitlines():
        named = tuple(match[1] if match else b"" for match in (_STEP.search(line), _PHASE.search(line)))
        at, again = named, 0
        while at in found:
            again += 1
            at = (*named, str(again).encode())
        found[at] = line
    return found


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return {"line that is no JSON": line.decode(errors="replace")}
