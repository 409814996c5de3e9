"""Records of real tiny runs, one of each pair changed: in the trainer itself, or in its steps on their way to disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from record.making import manifest
from train.running import NO_DUMPS, TINY, tiny, trainer

from foxflow import flow
from foxflow.config import DUMP_FLAGS, Recording
from foxflow.digest import digest
from foxflow.record import Writer
from foxflow.train.dataflow import as_json
from foxflow.train.trainer import Trainer

ALL_DUMPS = Recording(dump_groups=DUMP_FLAGS["all"], dump_steps=(0, 4), dump_k=True)
"""Every byte of the first four steps."""
LIGHT = Recording(level="light", dump_groups="")

Change = Callable[[Trainer], None]
Spot = tuple[int, str, int | None]
"""Step, buffer, k."""
Edit = Callable[[flow.Step, flow.Captured], flow.Captured]


def nothing(made: Trainer) -> None:
    """The clean run."""


def written(folder: Path, taken: Iterable[flow.Step], **declared: Any) -> flow.Record:
    dataflow = declared.pop("dataflow", as_json(TINY))
    writer = Writer(folder, manifest=manifest(dataflow=dataflow, **declared))
    for step in taken:
        writer.write(step)
    return writer.close({})


def run(change: Change = nothing, recording: Recording = NO_DUMPS) -> list[flow.Step]:
    """A tiny run of which something was changed before its first step."""
    made = trainer(tiny(), recording)
    change(made)
    return list(made.run())


def unseeded_outcome(made: Trainer) -> None:
    """As if the outcome head had been initialised from the clock."""
    made.learner.weights["outcome_w"].mul_(-1)


def other_quantiles(made: Trainer) -> None:
    """As if the quantile sampler had begun elsewhere; `raced` makes a race of it."""
    made.prng["iqn_prng_state"].view(torch.int32).bitwise_xor_(0x5555)


def raced(taken: Iterable[flow.Step], clean: Iterable[flow.Step]) -> Iterator[flow.Step]:
    """The steps with the clean run's states of the sampler, as a race leaves them EQUAL."""
    for step, own in zip(taken, clean, strict=True):
        states = {b.k: b for b in own.buffers if b.buffer == "iqn_prng_state"}
        yield replace(step, buffers=tuple(states[b.k] if b.buffer == "iqn_prng_state" else b for b in step.buffers))


def edited(taken: Iterable[flow.Step], edit: Edit) -> Iterator[flow.Step]:
    for step in taken:
        yield replace(step, buffers=tuple(edit(step, b) for b in step.buffers))


def other(b: flow.Captured, change: Callable[[np.ndarray], None] | None = None) -> flow.Captured:
    """The buffer with other bytes: those a change gives, or, of a buffer that is not dumped, some others."""
    if b.data is None:
        return replace(b, digest=digest(b.digest.encode(), "u8", (len(b.digest),)))
    array = np.frombuffer(b.data, {"f32": "<f4", "i32": "<i4", "u32": "<u4"}.get(b.dtype, "u1")).copy()
    if change is None:
        array.view(np.uint8)[:] ^= 0x15
    else:
        change(array)
    return replace(b, data=array.tobytes(), digest=digest(array.tobytes(), b.dtype, b.shape))


def at(*places: Spot, change: Callable[[np.ndarray], None] | None = None, phase: str = flow.TRAIN) -> Edit:
    """Change buffers at some steps and iterations of a phase."""
    wanted = set(places)

    def edit(step: flow.Step, b: flow.Captured) -> flow.Captured:
        return other(b, change) if step.phase == phase and (step.step, b.buffer, b.k) in wanted else b

    return edit
