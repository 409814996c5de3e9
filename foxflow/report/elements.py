"""The buffers that are not EQUAL, step by step, as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from foxflow import flow
from foxflow.report.text import number

STEPS, BUFFERS = 6, 80
"""Steps told in detail, and buffers of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One buffer that is not EQUAL, in words."""

    name: str
    group: str
    verdict: str
    kind: str
    differing: str
    max_abs: str
    max_ulp: str
    first_index: str
    notes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One step with differences; `bytes_kept` says whether any of its buffers could be measured."""

    anchor: str
    phase: str
    step: int
    total: int
    bytes_kept: bool
    rows: tuple[Row, ...]


def details(found: flow.Comparison) -> tuple[tuple[Detail, ...], int]:
    """The first steps with differences, and of the later ones those that were measured element by element.

    Returns:
        At most STEPS of them in the order of the run, and how many steps with differences are not among them.
    """
    apart = [step for step in found.steps if any(g.buffers for g in step.groups)]
    places = range(len(apart))
    wanted = (*places[: STEPS // 2], *(i for i in places if _measured(apart[i])), *places)
    chosen = sorted(list(dict.fromkeys(wanted))[:STEPS])
    return tuple(_detail(apart[i]) for i in chosen), len(apart) - len(chosen)


def anchor(phase: str, step: int) -> str:
    """The name of a step's place on the page; `phase` comes from the file, so anything but letters goes."""
    return f"{'-'.join(format(ord(c), 'x') if not c.isalnum() or not c.isascii() else c for c in phase[:40])}-{step}"


def measures(b: flow.BufferDiff) -> dict[str, str]:
    """What is known of how far a buffer's two sides lie apart."""
    return {
        "differing": "–" if b.differing is None else f"{b.differing:,} of {b.elements:,}",
        "max_abs": number(b.max_abs),
        "max_ulp": number(b.max_ulp),
        "first_index": "–" if b.first_index is None else str(list(b.first_index)),
        "notes": "; ".join(_notes(b)) or "–",
    }


def _measured(step: flow.StepDiff) -> bool:
    return any(b.differing is not None for g in step.groups for b in g.buffers)


def _detail(step: flow.StepDiff) -> Detail:
    pairs = [(g.group, b) for g in step.groups for b in g.buffers]
    return Detail(
        anchor=anchor(step.phase, step.step),
        phase=step.phase,
        step=step.step,
        total=len(pairs),
        bytes_kept=_measured(step),
        rows=tuple(_row(group, b) for group, b in pairs[:BUFFERS]),
    )


def _row(group: str, b: flow.BufferDiff) -> Row:
    name = b.name if b.k is None else f"{b.name} (k {b.k})"
    return Row(name=name, group=group, verdict=b.verdict, kind=f"{b.dtype} {list(b.shape)}", **measures(b))


def _notes(b: flow.BufferDiff) -> Iterator[str]:
    if b.permutation:
        yield "only the order differs"
    if b.nonfinite not in (None, (0, 0)):
        yield f"NaN or Inf: {b.nonfinite[0]:,} in A, {b.nonfinite[1]:,} in B"
