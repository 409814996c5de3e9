"""A comparison as JSON by the contract, and as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from foxflow import flow

FIRST_STEPS = 2
"""Steps with differences that are told buffer by buffer."""
LINES = 20
"""Buffers told of each."""


def as_json(comparison: flow.Comparison) -> dict[str, Any]:
    """The contract's JSON values: every step and group, of the buffers those that are not EQUAL.

    A step that is not of phase train has its phase beside its number.
    """
    return {
        "verdict": comparison.verdict,
        "reason": comparison.reason,
        "first": first_as_json(comparison.first),
        "compared": comparison.compared,
        "differing": comparison.differing,
        "steps": [
            {
                "step": step.step,
                **({} if step.phase == flow.TRAIN else {"phase": step.phase}),
                "groups": [
                    {"group": g.group, "verdict": g.verdict, "buffers": [_buffer(b) for b in g.buffers]}
                    for g in step.groups
                ],
            }
            for step in comparison.steps
        ],
    }


def first_as_json(first: flow.Where | None) -> dict[str, Any] | None:
    """The contract's JSON values of a first divergence."""
    return None if first is None else {"step": first.step, "k": first.k, "group": first.group, "buffer": first.buffer}


def _buffer(b: flow.BufferDiff) -> dict[str, Any]:
    return {
        "name": b.name,
        "k": b.k,
        "verdict": b.verdict,
        "dtype": b.dtype,
        "shape": list(b.shape),
        "elements": b.elements,
        "differing": b.differing,
        "max_abs": b.max_abs,
        "max_ulp": b.max_ulp,
        "first_index": None if b.first_index is None else list(b.first_index),
        "permutation": b.permutation,
    }


def as_table(comparison: flow.Comparison) -> str:
    """Plain text: the verdict, a row per step and a column per group, then the first differing steps in detail.

    Consecutive steps with one row are one line.
    """
    groups = list(dict.fromkeys(g.group for step in comparison.steps for g in step.groups))
    head = f"{comparison.verdict}: {comparison.compared} compared, {comparison.differing} differing, "
    lines = [f"{head}{comparison.missing} missing"]
    if comparison.reason is not None:
        lines.append(comparison.reason)
    if groups:
        rows = [["step", *groups], *_runs(comparison.steps, groups)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines += ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    told = [step for step in comparison.steps if any(g.verdict != flow.EQUAL for g in step.groups)]
    for step in told[:FIRST_STEPS]:
        lines += _told(step)
    if len(told) > FIRST_STEPS:
        lines.append(f"… and {len(told) - FIRST_STEPS} more steps with differences")
    return "\n".join(lines)


def _name(step: flow.StepDiff) -> str:
    return str(step.step) if step.phase == flow.TRAIN else f"{step.phase} {step.step}"


def _runs(steps: tuple[flow.StepDiff, ...], groups: list[str]) -> Iterator[list[str]]:
    """Rows of verdicts; a run of steps with equal rows is named by its first and last."""
    start: flow.StepDiff | None = None
    end: flow.StepDiff | None = None
    row: list[str] = []
    for step in steps:
        verdicts = {g.group: g.verdict for g in step.groups}
        cells = [verdicts.get(group, "") for group in groups]
        if start is None or end is None or (cells, step.phase) != (row, start.phase):
            if start is not None and end is not None:
                yield [_span(start, end), *row]
            start, row = step, cells
        end = step
    if start is not None and end is not None:
        yield [_span(start, end), *row]


def _span(start: flow.StepDiff, end: flow.StepDiff) -> str:
    return _name(start) if start.step == end.step else f"{_name(start)}-{end.step}"


def _told(step: flow.StepDiff) -> Iterator[str]:
    yield f"step {_name(step)}"
    for group in step.groups:
        if group.verdict == flow.EQUAL:
            continue
        yield f"  {group.group}  {_summary(group)}"
        for b in group.buffers[:LINES]:
            yield f"    {b.name}{'' if b.k is None else f' (k {b.k})'}  {_detail(b)}"
        if len(group.buffers) > LINES:
            yield f"    … and {len(group.buffers) - LINES} more"


def _summary(group: flow.GroupDiff) -> str:
    measured = [b for b in group.buffers if b.differing is not None]
    if group.verdict != flow.DIVERGE or not measured:
        return group.verdict
    return f"DIVERGE max|Δ|={_number(_largest(measured))} ({sum(b.differing or 0 for b in measured)} elements)"


def _largest(buffers: list[flow.BufferDiff]) -> float | str | None:
    values = [b.max_abs for b in buffers if b.max_abs is not None]
    words = [word for word in ("nan", "inf") if word in values]
    return words[0] if words else max((value for value in values if not isinstance(value, str)), default=None)


def _number(value: float | str | None) -> str:
    return str(value) if value is None or isinstance(value, str | int) else f"{value:.6g}"


def _detail(b: flow.BufferDiff) -> str:
    if b.differing is None:
        return f"{b.verdict} {b.dtype} {list(b.shape)}"
    parts = [f"DIVERGE max|Δ|={_number(b.max_abs)} ({b.differing} of {b.elements} elements)"]
    parts += [f"{b.max_ulp} ULP"] if b.max_ulp is not None else []
    parts += [f"first at {list(b.first_index)}"] if b.first_index is not None else []
    parts += ["only the order differs"] if b.permutation else []
    parts += [f"NaN or Inf: {b.nonfinite[0]} and {b.nonfinite[1]}"] if b.nonfinite not in (None, (0, 0)) else []
    return ", ".join(parts)
