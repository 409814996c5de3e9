"""The walk over a comparison: every place that differs begins a divergence or follows from one."""

from __future__ import annotations

from typing import Any

from foxflow import flow
from foxflow.explanation.dataflow import Dataflow
from foxflow.explanation.inputs import ABSENT, Inputs, Read, gap
from foxflow.explanation.layout import Place
from foxflow.explanation.roots import Origin, Roots
from foxflow.explanation.view import NOWHERE, View, views

STATE = "s"
"""Captured as a step starts."""


def walk(comparison: flow.Comparison, record: flow.Record, dataflow: Dataflow) -> Roots:
    """Find the roots of a comparison.

    A place that differs though all that it was made from is EQUAL is a root; one with inputs that differ inherits
    their roots. What was not captured may carry a difference on, so that a place behind it is a follower if anything
    before it differs. Memory holds the step under way and the one before.

    Args:
        comparison: of `record` and another.
        record: A, for what was captured.
        dataflow: of A.
    """
    walker = _Walk(dataflow)
    for view in views(comparison, record):
        walker.take(view)
    return walker.roots


class _Walk:
    def __init__(self, dataflow: Dataflow) -> None:
        self._dataflow, self._inputs = dataflow, Inputs(dataflow)
        self._trained: View | None = None
        self.roots = Roots()

    def take(self, view: View) -> None:
        """Walk one step."""
        phase, step = view.at
        if phase == flow.EVAL:
            view.taint = self._base(view).taint
        self._inputs.before = self._before(view)
        before = self._inputs.before
        if view.apart or (before is not None and (before.bits or before.taint)):
            self._spread_and_begin(view)
        self._keep(view)
        self.roots.follow(view)
        if phase != flow.EVAL and step > 0:
            self.roots.last_state = step
        self.roots.wake(view, [place for place in view.apart if self._is_state(place)])
        if phase == flow.TRAIN:
            self._trained = view
        elif phase == flow.FINAL:
            self._inputs.base = view
        self._inputs.before = view if phase == flow.EVAL else self._trained

    def _before(self, view: View) -> View | None:
        before = self._inputs.before
        if view.at[1] and (before is None or before.at[1] != view.at[1] - 1):
            return gap(view)
        return before

    def _base(self, view: View) -> View:
        """The closing snapshot; where there is none, what training may have left."""
        if self._inputs.base is None:
            base = View((flow.FINAL, view.at[1]), NOWHERE)
            self._inputs.before = self._trained
            self._spread(base, {}, self._absent(base))
            self._inputs.base = base
        return self._inputs.base

    def _is_state(self, place: Place) -> bool:
        entry = self._dataflow.of(*place)
        return entry is not None and entry.at == STATE and place[1] is None

    def _keep(self, view: View) -> None:
        for name in self._dataflow.constants:
            if view.captured((name, None)):
                self._inputs.constants[name] = view.bits.get((name, None), 0)

    def _absent(self, view: View) -> dict[str, list[Read]]:
        """Buffers of the dataflow that were not captured, with what they may have been made from."""
        if view.at[0] == flow.EVAL:
            return {}
        return {
            entry.buffer: self._inputs.absent_reads(view, entry)
            for entry in self._dataflow
            if entry.buffer not in self._inputs.constants and not any(map(view.captured, _places(view, entry.buffer)))
        }

    def _spread_and_begin(self, view: View) -> None:
        absent = self._absent(view)
        reads: dict[Place, list[Read]] = {}
        for place in view.apart:
            entry = self._dataflow.of(*place)
            reads[place] = [] if entry is None else self._inputs.reads(view, entry, place[1])
        waiting: list[Place] = []
        for place, read in reads.items():
            statuses = {self._inputs.status(r)[0] for r in read}
            if statuses <= {flow.EQUAL}:
                self._begin(view, place, read)
            elif flow.DIVERGE not in statuses:
                waiting.append(place)
        self._spread(view, reads, absent)
        for place in (*waiting, *reads):
            if not view.bits.get(place):
                self._begin(view, place, reads[place])
                self._spread(view, reads, absent)

    def _begin(self, view: View, place: Place, reads: list[Read]) -> None:
        entry, statuses = self._dataflow.of(*place), [(r[1], self._inputs.status(r)[0]) for r in reads]
        origin = Origin(
            entry=entry,
            start=entry is not None and entry.starts is not None and self._inputs.begins(view, entry),
            equal=sum(verdict == flow.EQUAL for _, verdict in statuses),
            unrecorded=tuple(dict.fromkeys(name for name, verdict in statuses if verdict == ABSENT)),
            kept_before=place[0] in self._inputs.constants,
        )
        view.bits[place] = view.bits.get(place, 0) | self.roots.begin(view, place, origin)

    def _spread(self, view: View, reads: dict[Place, list[Read]], absent: dict[str, list[Read]]) -> None:
        """Hand roots on from inputs to what was made from them, until nothing changes."""
        changed = True
        while changed:
            changed = False
            for name, sources in absent.items():
                changed |= self._gather(view.taint, name, sources)
            for place, sources in reads.items():
                changed |= self._gather(view.bits, place, sources)

    def _gather(self, bits: dict[Any, int], key: Any, sources: list[Read]) -> bool:
        before = found = bits.get(key, 0)
        for source in sources:
            found |= self._inputs.status(source)[1]
        if found != before:
            bits[key] = found
        return found != before


def _places(view: View, name: str) -> list[Place]:
    """Where in a step a buffer may have been captured."""
    return [(name, k) for k in (None, *view.layout.iterations.get(name, ()))]
