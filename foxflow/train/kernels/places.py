"""Where the inputs of a buffer were captured: the dataflow unrolled over steps, iterations and phases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from foxflow import flow
from foxflow.config import Shape
from foxflow.errors import must
from foxflow.train.dataflow import Buffer, buffers
from foxflow.train.kernels.setting import Setting
from foxflow.train.plan import EVAL_ROWS, ONCE

READING_STARTS = ("copy", "env_reset")
"""Starts that read their unmarked inputs; the others read a seed or a constant."""
HELD = ("isv", "act_prng_state", "per_prng_state", "iqn_prng_state")
"""What evaluation captures and leaves as training left it."""


@dataclass(frozen=True, slots=True)
class Place:
    """One input of a buffer: the key under which its kernel reads it, and where it was captured."""

    key: str
    name: str
    step: int
    k: int | None
    phase: str = flow.TRAIN


@cache
def rows(shape: Shape) -> dict[tuple[str, bool], Buffer]:
    """The dataflow by name and whether captured in the inner loop."""
    return {(b.name, b.at == "k"): b for b in buffers(shape)}


def row(setting: Setting, name: str, k: int | None) -> Buffer:
    """The row of the dataflow by which a buffer is captured.

    Raises:
        Mistake: there is none.
    """
    found = rows(setting.config.shape).get((name, k is not None))
    if found is None:
        where = "outside the inner loop" if k is None else "in the inner loop"
        raise must(name, f"be a buffer of the dataflow captured {where}", "none such")
    return found


def inputs_of(setting: Setting, name: str, step: int, k: int | None) -> tuple[Place, ...]:
    """The captured places that a buffer is made from.

    What evaluation reads of training (weights, isv, samplers) stands in the closing snapshot.

    Args:
        setting: of the run and phase.
        name: the buffer.
        step: its step.
        k: its iteration; None outside the inner loop.

    Returns:
        In the order of the dataflow. A buffer that is read over the whole inner loop has one place an iteration, its
        key ending in `@0`, `@1` …; what a run starts from reads nothing, but for a `copy` and `env_reset`.
    """
    read = row(setting, name, k)
    if setting.evaluates and name in HELD:
        before = Place(f"{name}-", name, step - 1, None, flow.EVAL)
        return (before if step > setting.first else replace(before, step=step, phase=flow.FINAL),)
    inputs = read.inputs
    if started(setting, read, step):
        inputs = tuple(i for i in inputs if i[-1] not in "-~") if read.starts in READING_STARTS else ()
    return tuple(place for key in inputs for place in _places(setting, read, key, step, k))


def started(setting: Setting, buffer: Buffer, step: int) -> bool:
    """Whether a buffer is made by what training or evaluation starts from, and not by its producers."""
    held = setting.evaluates and buffer.name in HELD
    return buffer.starts is not None and _begins(setting, step) and not held


def _begins(setting: Setting, step: int) -> bool:
    return step == setting.first and setting.phase != flow.FINAL


def _places(setting: Setting, reader: Buffer, key: str, step: int, k: int | None) -> list[Place]:
    name, phase, known = key.rstrip("-~"), setting.phase, rows(setting.config.shape)
    outside, inner = known.get((name, False)), (name, True) in known
    last = setting.config.shape.K - 1
    if outside and outside.group == ONCE:
        return [Place(key, name, 0, None)]
    if key.endswith("~") and k:
        return [Place(key, name, step, k - 1)]
    if key.endswith("~") and outside:
        return [Place(key, name, step, None)]
    if key[-1] in "-~":
        before = flow.TRAIN if phase == flow.FINAL else phase
        place = Place(key, name, step - 1, last if inner else None, before)
        return [] if _begins(setting, step) else [place]
    if inner and reader.at == "k":
        return [Place(key, name, step, k)]
    if inner and reader.at == "l":
        return [Place(f"{key}@{i}", name, step, i) for i in range(last + 1)]
    if setting.evaluates and outside and outside.row not in EVAL_ROWS:
        return [Place(key, name, setting.first, None, flow.FINAL)]
    return [Place(key, name, step, None, phase)]
