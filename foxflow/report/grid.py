"""The map of a comparison, steps across and groups down, with long runs gathered into ranges of steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from foxflow import flow

COLUMNS, ROWS = 60, 40
"""At most this many are drawn."""

ABSENT = ""
"""The verdict of a group that has nothing in a range of steps."""

_WORSE = (flow.DIVERGE, flow.MISSING, flow.EQUAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One group over one range of steps; its verdict is the worst of them."""

    verdict: str
    steps: int
    """Steps of the range in which the group was captured."""
    bad: int
    """Of these, steps with the cell's verdict where that is not EQUAL."""
    at: int | None
    """The first of the bad ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A range of consecutive captured steps of one phase."""

    phase: str
    first: int
    last: int

    @property
    def label(self) -> str:
        """«step 3» or «steps 40 to 79», with the phase where it is not training."""
        span = f"step {self.first}" if self.first == self.last else f"steps {self.first} to {self.last}"
        return span if self.phase == flow.TRAIN else f"{self.phase} {span}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What is drawn."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    """(group, its cells), in the order of the run."""
    hidden: int
    """Groups left out; those that differ are kept first."""
    first: tuple[int, int] | None
    """Column and row of the first divergence, where it is on the map."""


def grid(found: flow.Comparison) -> Grid:
    """Lay a comparison out on at most COLUMNS x ROWS cells.

    A range of steps spans one phase (unless phases change more often than COLUMNS times), and a new one begins at the
    first divergence, so that its step is exact.
    """
    ranges = _ranges(found)
    verdicts = [[{g.group: g.verdict for g in step.groups} for step in found.steps[a:b]] for a, b in ranges]
    names, hidden = _names(found)
    rows = tuple(
        (name, tuple(_cell(name, found.steps[a:b], seen) for (a, b), seen in zip(ranges, verdicts, strict=True)))
        for name in names
    )
    columns = tuple(
        Column(phase=found.steps[a].phase, first=found.steps[a].step, last=found.steps[b - 1].step) for a, b in ranges
    )
    return Grid(columns=columns, rows=rows, hidden=hidden, first=_first(found, columns, names))


def _ranges(found: flow.Comparison) -> list[tuple[int, int]]:
    """Slices of `found.steps`, as short as COLUMNS allows."""
    steps, cuts = found.steps, [0]
    for i, (before, after) in enumerate(itertools.pairwise(steps), start=1):
        begins = found.first is not None and (after.step, after.phase) == (found.first.step, found.first.phase)
        if before.phase != after.phase or begins:
            cuts.append(i)
    cuts = cuts[: COLUMNS - 1] if len(cuts) > COLUMNS else cuts
    spans = [(a, b) for a, b in zip(cuts, [*cuts[1:], len(steps)], strict=True) if b > a]
    size = 1
    while sum(math.ceil((b - a) / size) for a, b in spans) > COLUMNS:
        size += 1
    return [(at, min(at + size, b)) for a, b in spans for at in range(a, b, size)]


def _names(found: flow.Comparison) -> tuple[list[str], int]:
    groups: dict[str, bool] = {}
    for step in found.steps:
        for g in step.groups:
            groups[g.group] = groups.get(g.group, False) or g.verdict != flow.EQUAL
    kept = set(sorted(groups, key=lambda name: not groups[name])[:ROWS])
    return [name for name in groups if name in kept], len(groups) - len(kept)


def _cell(name: str, steps: Sequence[flow.StepDiff], seen: list[dict[str, str]]) -> Cell:
    here = [(step.step, verdicts[name]) for step, verdicts in zip(steps, seen, strict=True) if name in verdicts]
    if not here:
        return Cell(verdict=ABSENT, steps=0, bad=0, at=None)
    verdict = next(worst for worst in _WORSE if any(v == worst for _, v in here))
    bad = [step for step, v in here if v == verdict != flow.EQUAL]
    return Cell(verdict=verdict, steps=len(here), bad=len(bad), at=bad[0] if bad else None)


def _first(found: flow.Comparison, columns: tuple[Column, ...], names: list[str]) -> tuple[int, int] | None:
    where = found.first
    if where is None or where.group not in names:
        return None
    at = (i for i, c in enumerate(columns) if c.phase == where.phase and c.first <= where.step <= c.last)
    column = next(at, None)
    return None if column is None else (column, names.index(where.group))
