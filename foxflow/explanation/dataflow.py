"""The dataflow that a manifest declares: what makes each buffer, from what, and when it is captured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

BEFORE, AROUND = "-", "~"
"""Marks of an input: of the step before, of the iteration before."""

FIELDS = ("buffer", "group", "row", "at", "starts", "producers", "inputs")

READING_STARTS = ("copy", "env_reset")
"""Starts that read their unmarked inputs; the others read a seed or a constant."""

EVALUATION_STARTS = ("zeros", "env_reset")
"""Starts that evaluation makes anew, of the buffers that it records."""

REFERENCE = frozenset({"sampled_h_t", "iqn_cos", "grad_h_t_combined", "outcome_w", "per_tree"})
"""Buffers by which the reference trainer's dataflow is known."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One buffer of the dataflow, at one point of capture."""

    buffer: str
    group: str
    row: int
    at: str
    """s as the step starts, e once computed, k in each iteration of the inner loop, l after that loop."""
    starts: str | None
    producers: tuple[str, ...]
    inputs: tuple[tuple[str, str], ...]
    """(name, mark)."""

    def made_by(self, start: bool) -> str:
        """Its producer in words: what makes it at step 0, or in a step."""
        return self.starts if start and self.starts else ", ".join(self.producers)

    def reads(self, begins: bool) -> tuple[tuple[str, str], ...]:
        """What it is made from; where a run begins, nothing of a step before."""
        if not begins:
            return self.inputs
        if self.starts is not None and self.starts not in READING_STARTS:
            return ()
        return tuple((name, mark) for name, mark in self.inputs if not (mark == BEFORE or (self.starts and mark)))


class Dataflow:
    """Entries by buffer; a buffer may be captured as a step starts and again in each iteration.

    Args:
        manifest: a record's, JSON text. Entries that are no maps with the fields of the dataflow are left out.
    """

    def __init__(self, manifest: str) -> None:
        self._entries: dict[tuple[str, bool], Entry] = {}
        for declared in _declared(json.loads(manifest).get("dataflow")):
            entry = Entry(
                declared["buffer"],
                declared["group"],
                declared["row"],
                declared["at"],
                declared["starts"],
                tuple(declared["producers"]),
                tuple(_marked(name) for name in declared["inputs"]),
            )
            self._entries[entry.buffer, entry.at == "k"] = entry
        self.constants = tuple(e.buffer for e in self if not e.inputs and e.starts is None)
        """Buffers that nothing writes once they are there."""

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def of(self, name: str, k: int | None) -> Entry | None:
        """The entry of a buffer captured in iteration k, or outside the inner loop."""
        inner = k is not None
        return self._entries.get((name, inner)) or self._entries.get((name, not inner))

    def is_reference(self) -> bool:
        """Whether it is that of `foxflow run`."""
        return {name for name, _ in self._entries} >= REFERENCE


def _declared(value: Any) -> Iterator[dict[str, Any]]:
    for entry in value if isinstance(value, list) else ():
        if isinstance(entry, dict) and all(field in entry for field in FIELDS):
            yield entry


def _marked(name: str) -> tuple[str, str]:
    mark = name[-1:] if name[-1:] in (BEFORE, AROUND) else ""
    return name[: len(name) - len(mark)], mark
