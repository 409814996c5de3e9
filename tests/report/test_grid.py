"""The map's layout: what a cell stands for when long runs are gathered."""

from __future__ import annotations

import dataclasses

from report.reading import long

from foxflow import flow
from foxflow.report.grid import COLUMNS, ROWS, grid


def test_short_runs_have_a_column_for_each_step() -> None:
    found = long(30, groups="AB", first=7)
    short = dataclasses.replace(found, steps=found.steps[:30])
    laid = grid(short)
    assert [(c.first, c.last) for c in laid.columns] == [(i, i) for i in range(30)]
    assert [cell.verdict for cell in laid.rows[0][1]] == [flow.EQUAL] * 7 + [flow.DIVERGE] * 23


def test_a_column_begins_at_the_first_divergence_and_none_spans_two_phases() -> None:
    laid = grid(long(2000))
    assert len(laid.columns) <= COLUMNS
    assert laid.first is not None
    column = laid.columns[laid.first[0]]
    assert (column.phase, column.first, laid.first[1]) == (flow.TRAIN, 731, 0)
    assert {cell.verdict for cell in laid.rows[0][1][: laid.first[0]]} == {flow.EQUAL}
    covered = [(c.phase, step) for c in laid.columns for step in range(c.first, c.last + 1)]
    assert covered == [(s.phase, s.step) for s in long(2000).steps]


def test_a_cell_shows_the_worst_of_its_steps_and_counts_them() -> None:
    found = long(2000, groups="AB", first=2000)
    steps = list(found.steps)
    bad = flow.GroupDiff(group="B", verdict=flow.DIVERGE, compared=1)
    gone = flow.GroupDiff(group="B", verdict=flow.MISSING, compared=1)
    for step, group in ((100, gone), (101, bad), (103, bad)):
        steps[step] = dataclasses.replace(steps[step], groups=(steps[step].groups[0], group))
    laid = grid(dataclasses.replace(found, steps=tuple(steps), first=None))
    (cell,) = [cell for cell in laid.rows[1][1][:40] if cell.verdict != flow.EQUAL]
    assert (cell.verdict, cell.bad, cell.at) == (flow.DIVERGE, 2, 101)


def test_a_group_that_a_phase_lacks_is_neither_equal_nor_missing_there() -> None:
    found = long(10, groups="AB", first=5)
    steps = tuple(dataclasses.replace(s, groups=s.groups[:1]) if s.phase == flow.EVAL else s for s in found.steps)
    laid = grid(dataclasses.replace(found, steps=steps))
    at = [i for i, c in enumerate(laid.columns) if c.phase == flow.EVAL]
    assert {laid.rows[1][1][i].verdict for i in at} == {""}
    assert {laid.rows[0][1][i].verdict for i in at} == {flow.DIVERGE}


def test_of_very_many_groups_those_that_differ_are_kept() -> None:
    names = "".join(chr(0x4E00 + i) for i in range(100))
    found = long(3, groups=names, first=900)
    last = dataclasses.replace(found.steps[-1].groups[-1], verdict=flow.DIVERGE)
    steps = (*found.steps[:-1], dataclasses.replace(found.steps[-1], groups=(*found.steps[-1].groups[:-1], last)))
    laid = grid(dataclasses.replace(found, steps=steps, first=None))
    assert (len(laid.rows), laid.hidden) == (ROWS, 60)
    assert [name for name, _ in laid.rows] == [*names[:39], names[-1]]


def test_phases_that_change_at_every_step_still_fit() -> None:
    found = long(500, groups="A")
    steps = tuple(dataclasses.replace(s, phase=(flow.TRAIN, flow.EVAL)[i % 2]) for i, s in enumerate(found.steps[:500]))
    assert len(grid(dataclasses.replace(found, steps=steps)).columns) <= COLUMNS


def test_an_empty_comparison_has_an_empty_map() -> None:
    laid = grid(dataclasses.replace(long(1), steps=(), first=None))
    assert (laid.columns, laid.rows, laid.hidden, laid.first) == ((), (), 0, None)
