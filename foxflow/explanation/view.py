"""One step of two records: what was captured, what differs, and which roots each difference comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from foxflow import flow
from foxflow.explanation.layout import At, Layout, Place, layouts

NOWHERE = Layout([])

ORDER = {flow.TRAIN: 0, flow.FINAL: 1, flow.EVAL: 2}
"""The closing snapshot holds the weights that evaluation ran on, so it is walked before."""


@dataclass(slots=True, eq=False)
class View:
    """A step under way; `bits` and `taint` are filled by the walk."""

    at: At
    layout: Layout
    apart: dict[Place, flow.BufferDiff] = field(default_factory=dict)
    """Places that differ, in the order of capture."""
    groups: dict[Place, str] = field(default_factory=dict)
    """Their groups."""
    missing: set[Place] = field(default_factory=set)
    bits: dict[Place, int] = field(default_factory=dict)
    """Places that differ -> the roots they come from, a bit each."""
    taint: dict[str, int] = field(default_factory=dict)
    """Buffers that were not captured -> the roots that they may come from."""

    def captured(self, place: Place) -> bool:
        """Whether both records have the place."""
        return place in self.layout.places and place not in self.missing

    def where(self, place: Place) -> flow.Where:
        """A place that differs, as the contract names it."""
        return flow.Where(step=self.at[1], k=place[1], group=self.groups[place], buffer=place[0], phase=self.at[0])


def views(comparison: flow.Comparison, record: flow.Record) -> Iterator[View]:
    """Every step that A recorded, training first, then the closing snapshot, then evaluation.

    Args:
        comparison: of the record and another.
        record: A.
    """
    unlike = {(step.phase, step.step): step for step in comparison.steps}
    for at, layout in sorted(layouts(record), key=lambda item: ORDER[item[0][0]]):
        view = View(at, layout)
        if at in unlike:
            _fill(view, unlike[at])
        yield view


def _fill(view: View, step: flow.StepDiff) -> None:
    found = [(b.order, b, g.group) for g in step.groups for b in g.buffers]
    for _, diff, group in sorted(found, key=lambda item: item[0]):
        place = (diff.name, diff.k)
        if diff.verdict == flow.DIVERGE:
            view.apart[place], view.groups[place] = diff, group
        else:
            view.missing.add(place)
