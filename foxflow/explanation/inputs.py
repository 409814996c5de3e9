"""What a place was made from, with the dataflow unrolled over steps and iterations."""

from __future__ import annotations

from foxflow import flow
from foxflow.explanation.dataflow import AROUND, BEFORE, EVALUATION_STARTS, Dataflow, Entry
from foxflow.explanation.layout import Place
from foxflow.explanation.view import NOWHERE, View

ABSENT = "absent"

Read = tuple[View | None, str, int | None]
"""A place of a step; None for a buffer that is captured once and keeps its verdict."""


class Inputs:
    """Finds the places that an input stands for, among the step under way, the one before, and what is kept.

    Args:
        dataflow: of the records.
    """

    def __init__(self, dataflow: Dataflow) -> None:
        self.dataflow = dataflow
        self.before: View | None = None
        """The step before; None before step 0."""
        self.base: View | None = None
        """During evaluation: the closing snapshot, which holds what evaluation steps don't capture."""
        self.constants: dict[str, int] = {}
        """Captured buffers that nothing writes -> their roots."""

    def begins(self, view: View, entry: Entry) -> bool:
        """Whether a buffer is made anew in a step: all of them in step 0, some as evaluation starts."""
        if view.at[0] != flow.EVAL:
            return view.at[1] == 0
        first = self.before is None or self.before.at[0] != flow.EVAL
        return first and entry.starts in EVALUATION_STARTS

    def reads(self, view: View, entry: Entry, k: int | None) -> list[Read]:
        """The places that a buffer captured in a step (in iteration k) was made from."""
        found: list[Read] = []
        for name, mark in entry.reads(self.begins(view, entry)):
            if mark == BEFORE:
                found += self._last(name)
            elif mark == AROUND:
                found += self._around(view, name, k)
            else:
                found += self._here(view, name, k, entry.at)
        return list(dict.fromkeys(found))

    def absent_reads(self, view: View, entry: Entry) -> list[Read]:
        """The same for a buffer that was not captured: whatever it may have been made from."""
        found = self.reads(view, entry, None)
        for name, mark in entry.reads(self.begins(view, entry)):
            if not mark:
                found += [(view, name, k) for k in view.layout.iterations.get(name, ())]
        return found

    def status(self, read: Read) -> tuple[str, int]:
        """EQUAL, DIVERGE or ABSENT, and the roots that it comes from or may come from."""
        view, name, k = read
        if view is None:
            bits = self.constants[name]
            return (flow.DIVERGE if bits else flow.EQUAL), bits
        place: Place = (name, k)
        if not view.captured(place):
            return ABSENT, view.taint.get(name, 0)
        return (flow.DIVERGE if place in view.apart else flow.EQUAL), view.bits.get(place, 0)

    def _here(self, view: View, name: str, k: int | None, at: str) -> list[Read]:
        inner = view.layout.iterations.get(name)
        if inner is None:
            return [self._kept(view, name)]
        outside = (name, None) in view.layout.places
        if k is not None and (k in inner or outside):
            return [(view, name, k if k in inner else None)]
        if outside and not (at == "l" and inner):
            return [(view, name, None)]
        return [(view, name, each) for each in inner]

    def _around(self, view: View, name: str, k: int | None) -> list[Read]:
        """The iteration before; before the first one, as the step started, else the last of the step before."""
        inner = view.layout.iterations.get(name, ())
        if k is None:
            return [(view, name, each) for each in inner] + self._last(name)
        if k:
            return [(view, name, k - 1)]
        return [(view, name, None)] if (name, None) in view.layout.places else self._last(name)

    def _last(self, name: str) -> list[Read]:
        """The buffer as the step before left it; nothing before step 0."""
        if self.before is None:
            return []
        inner = self.before.layout.iterations.get(name)
        if inner is None:
            return [self._kept(self.before, name)]
        return [(self.before, name, inner[-1] if inner else None)]

    def _kept(self, view: View, name: str) -> Read:
        """A buffer that a step did not capture: one that nothing writes, or as the closing snapshot holds it."""
        if name in self.constants:
            return None, name, None
        if self.base is not None and (name, None) in self.base.layout.places:
            return self.base, name, None
        return view, name, None


def gap(view: View) -> View:
    """What stands for the step before, where that was not recorded."""
    return View((view.at[0], view.at[1] - 1), NOWHERE)
