"""What the two records say of themselves, A beside B."""

from __future__ import annotations

import json
from dataclasses import dataclass

from markupsafe import Markup

from foxflow import flow
from foxflow.leaves import leaves
from foxflow.report.text import command

EVAL = "eval_summary.json"
LEAVES = 400
"""Rows of the summary that are shown; those that differ come before the rest is cut."""

ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two runs."""

    letter: str
    name: str
    path: str
    seed: str
    fingerprint: str
    complete: bool
    command: Markup | None
    """The command line that makes the run again, None where the record has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One leaf of the evaluation summary, as A and B write it."""

    name: str
    a: str
    b: str

    @property
    def differs(self) -> bool:
        return self.a != self.b


def sides(
    found: flow.Comparison, records: tuple[flow.Record, flow.Record], names: tuple[str, str]
) -> tuple[Side, Side]:
    """A and B, by the names that the reader may type for them."""
    one, other = (_side("AB"[i], names[i], records[i], found.fingerprints[i]) for i in (0, 1))
    return one, other


def _side(letter: str, name: str, record: flow.Record, fingerprint: str | None) -> Side:
    manifest = json.loads(record.manifest)
    words = manifest.get("command")
    repeatable = isinstance(words, list) and words and all(isinstance(word, str) for word in words)
    return Side(
        letter=letter,
        name=name,
        path=record.path,
        seed=json.dumps(manifest.get("seed")),
        fingerprint=fingerprint or "none",
        complete=record.complete,
        command=command(["foxflow", *words]) if repeatable else None,
    )


def evaluation(a: flow.Record, b: flow.Record) -> tuple[tuple[Value, ...], int]:
    """The two evaluation summaries leaf by leaf, numbers as the files write them.

    Returns:
        At most LEAVES rows in the files' order, and how many were cut.
    """
    one, other = _leaves(a.read(EVAL)), _leaves(b.read(EVAL))
    names = dict.fromkeys((*one, *other))
    rows = [Value(name=name, a=one.get(name, ABSENT), b=other.get(name, ABSENT)) for name in names]
    kept = set(sorted(range(len(rows)), key=lambda i: not rows[i].differs)[:LEAVES])
    return tuple(rows[i] for i in sorted(kept)), len(rows) - len(kept)


def _leaves(content: bytes | None) -> dict[str, str]:
    if content is None:
        return {}
    try:
        value = json.loads(content, parse_float=_Written, parse_int=_Written, parse_constant=_Written)
    except ValueError:
        return {"the file": "is no JSON"}
    return {
        name or "the file": found if isinstance(found, _Written) else json.dumps(found) for name, found in leaves(value)
    }


class _Written(str):
    """A number as the file writes it."""
