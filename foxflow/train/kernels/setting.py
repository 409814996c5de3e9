"""What a kernel knows beside its inputs: config, instrument, phase and device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from foxflow import flow
from foxflow.config import Config, Shape
from foxflow.market.instrument import Instrument


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The scene of a run, as far as its manifest states it."""

    config: Config
    instrument: Instrument
    device: torch.device
    phase: str = flow.TRAIN

    @property
    def first(self) -> int:
        """The first step of the phase; evaluation and the closing snapshot are numbered on from training."""
        return 0 if self.phase == flow.TRAIN else self.config.steps

    @property
    def evaluates(self) -> bool:
        """Whether this is a step of the evaluation."""
        return self.phase == flow.EVAL


def setting_of(manifest: Mapping[str, Any], device: torch.device, phase: str = flow.TRAIN) -> Setting:
    """Read the scene from a record's manifest.

    Args:
        manifest: of a record of `foxflow run`, as JSON values.
        device: where kernels are to run.
        phase: train, eval or final.
    """
    stated = {key: value for key, value in manifest["config"].items() if key not in ("shape", "specimens")}
    shape, specimens = Shape(**manifest["config"]["shape"]), tuple(manifest["config"]["specimens"])
    return Setting(
        config=Config(seed=manifest["seed"], shape=shape, specimens=specimens, **stated),
        instrument=Instrument(**manifest["data"]["terms"]),
        device=device,
        phase=phase,
    )
