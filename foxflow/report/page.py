"""The page: everything that is known of two runs in one HTML file that needs no network and no script."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foxflow import __version__, flow
from foxflow.report import elements, sides, text
from foxflow.report.grid import Cell, Column, Grid, grid

if TYPE_CHECKING:
    from jinja2 import Environment

ROOTS = 12
"""Roots told in full; the rest are folded, a line each."""
LINES = 200
"""Rows of any other table."""

CELLS = {flow.DIVERGE: ("d", "×"), flow.MISSING: ("m", "–"), flow.EQUAL: ("e", ""), "": ("n", "")}
"""Verdict of a cell -> its class and its sign."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What else is known of two runs, beside their comparison."""

    explanation: flow.Explanation | None = None
    proof: flow.Proof | None = None
    """Its explanation is taken where none is given."""
    verdict: flow.Verdict | None = None
    names: tuple[str, str] | None = None
    """What the reader may type for the two runs; the records' folders by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A root with the experiments that were made on it."""

    number: int
    root: flow.Root
    tried: bool
    experiments: tuple[flow.Experiment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """A cell as the template needs it."""

    kind: str
    sign: str
    said: str
    link: str | None
    first: bool


def page(found: flow.Comparison, a: flow.Record, b: flow.Record, findings: Findings | None = None) -> str:
    """Write the report of a comparison.

    Names and values from the records are text, never markup; control and direction characters are written out.
    The same input gives the same page, byte for byte, and its size is bounded whatever the length of the runs.

    Args:
        found: of `a` and `b`, in this order.
        a: one record; its manifest and evaluation summary are read.
        b: the other.
        findings: explanation, proof, the gate's verdict, and what the runs are called.

    Returns:
        HTML, to be written as UTF-8.
    """
    known = findings or Findings()
    explanation = known.explanation or (known.proof.explanation if known.proof else None)
    names = known.names or (found.a, found.b)
    told, left_out = elements.details(found)
    values, cut = sides.evaluation(a, b)
    return (
        _templates()
        .get_template("page.html.j2")
        .render(
            found=found,
            headline=text.headline(found),
            symbol=text.SYMBOLS[found.verdict],
            word=text.NAMES[found.verdict],
            sides=sides.sides(found, (a, b), names),
            gate=known.verdict,
            first=found.first,
            first_buffer=_first_buffer(found),
            drawn=_map(found, {detail.anchor for detail in told}),
            explanation=explanation,
            proof=known.proof,
            roots=tuple(_told(explanation, known.proof)),
            details=told,
            details_left_out=left_out,
            values=values,
            values_cut=cut,
            again=[text.command(["foxflow", verb, *names]) for verb in ("compare", "explain")],
            limits={"roots": ROOTS, "lines": LINES},
            version=__version__,
        )
    )


@functools.cache
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=text.shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"moment": text.moment, "count": text.count, "whole": text.whole}
    return environment


def _first_buffer(found: flow.Comparison) -> dict[str, str] | None:
    """What is known of the buffer in which the runs part first."""
    where = found.first
    for step in found.steps if where is not None else ():
        for group in step.groups if where and (step.step, step.phase) == (where.step, where.phase) else ():
            for b in group.buffers:
                if where and (group.group, b.name, b.k) == (where.group, where.buffer, where.k):
                    return {"kind": f"{b.dtype} {list(b.shape)}", "verdict": b.verdict, **elements.measures(b)}
    return None


def _told(explanation: flow.Explanation | None, proof: flow.Proof | None) -> Iterator[_Told]:
    """The roots, and the accused where the caller accused another than a root."""
    roots = list(explanation.roots) if explanation else []
    accused = proof.accused if proof else None
    if accused is not None and accused not in roots:
        roots.insert(0, accused)
    for number, root in enumerate(roots, start=1):
        tried = proof is not None and root == accused
        yield _Told(number=number, root=root, tried=tried, experiments=proof.experiments if proof and tried else ())


def _map(found: flow.Comparison, anchors: set[str]) -> dict[str, object]:
    laid = grid(found)
    phases: list[tuple[str, int]] = []
    for column in laid.columns:
        before = phases.pop() if phases and phases[-1][0] == column.phase else (column.phase, 0)
        phases.append((column.phase, before[1] + 1))
    return {
        "phases": phases,
        "columns": laid.columns,
        "rows": [
            (name, [_drawn(laid, (x, y), cell, anchors) for x, cell in enumerate(cells)])
            for y, (name, cells) in enumerate(laid.rows)
        ],
        "hidden": laid.hidden,
        "binned": any(c.first != c.last for c in laid.columns),
    }


def _drawn(laid: Grid, at: tuple[int, int], cell: Cell, anchors: set[str]) -> _Drawn:
    kind, sign = CELLS[cell.verdict]
    column = laid.columns[at[0]]
    place = None if cell.at is None else elements.anchor(column.phase, cell.at)
    return _Drawn(
        kind=kind, sign=sign, said=_said(column, cell), link=place if place in anchors else None, first=at == laid.first
    )


def _said(column: Column, cell: Cell) -> str:
    """The cell in words, without its place where that is one step."""
    words = {flow.DIVERGE: "differs", flow.MISSING: "missing on a side", flow.EQUAL: "equal", "": "nothing captured"}
    said = words[cell.verdict]
    if cell.at is None or column.first == column.last:
        return said
    return f"{said} in {cell.bad} of {text.count(cell.steps, 'step')}, first {cell.at}"
