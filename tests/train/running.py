"""Small runs of the real trainer, without record or tracking."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from foxflow import flow
from foxflow.config import DUMP_FLAGS, PRESETS, Config, Recording
from foxflow.market.simulate import synthetic
from foxflow.train.trainer import Trainer

TINY = PRESETS["tiny"]
ROWS = 200
"""So short a tape that some environments wrap within twelve steps."""
STEPS, EVAL_STEPS = 12, 4
EVERYTHING = Recording(dump_groups=DUMP_FLAGS["all"], dump_steps=(0, 100), dump_k=True)
NO_DUMPS = Recording(dump_groups="")

Place = tuple[str, int, str, int | None]
Taken = dict[Place, flow.Captured]


def tiny(seed: int = 42, steps: int = STEPS, eval_steps: int = EVAL_STEPS) -> Config:
    return Config(seed=seed, steps=steps, eval_steps=eval_steps, preset="tiny", shape=TINY)


def trainer(config: Config | None = None, recording: Recording = EVERYTHING) -> Trainer:
    config = config or tiny()
    tape = synthetic(config.seed, ROWS, config.shape.L)
    return Trainer(config, recording, tape, torch.device("cpu"))


def changed(change: Callable[[Trainer], None]) -> tuple[Taken, Trainer]:
    """A tiny run of which something was changed before its first step."""
    made = trainer()
    change(made)
    return places(made.run()), made


def places(steps: Iterator[flow.Step]) -> Taken:
    """Every captured buffer by phase, step, name and k."""
    return {(step.phase, step.step, b.buffer, b.k): b for step in steps for b in step.buffers}


def differing(a: Taken, b: Taken) -> set[Place]:
    assert a.keys() == b.keys()
    return {place for place in a if a[place].digest != b[place].digest}


def at(found: set[Place], step: int, names: set[str]) -> set[str]:
    """Which of some buffers differ at a training step."""
    return {name for phase, t, name, _ in found if (phase, t) == (flow.TRAIN, step)} & names


def wide(seed: int, steps: int, eval_steps: int) -> Config:
    """The default shape with a small ring, so that threads have work and a step stays cheap."""
    return Config(seed=seed, steps=steps, eval_steps=eval_steps, shape=replace(PRESETS["default"], C=1024))
