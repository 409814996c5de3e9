"""One line of diag.jsonl a step: losses, controllers, environment, replay and the step's checksums."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from foxflow import flow
from foxflow.agent.parameters import GROUPS
from foxflow.config import Config
from foxflow.market.environment import Moved
from foxflow.ops import learn
from foxflow.replay import Replay
from foxflow.train.table import HEADS

LOSSES = (*HEADS, "total")


class Diag:
    """Writes the lines; floats are the shortest decimals of their float32, what is not finite is null and listed.

    Args:
        config: of the run.
        tick_value_e4: worth of a tick in 1e-4 of the currency.
    """

    def __init__(self, config: Config, tick_value_e4: int) -> None:
        self._config, self._tick_value_e4, self._began = config, tick_value_e4, time.perf_counter()

    def train(self, t: int, moved: Moved, values: dict[str, Tensor], replay: Replay, isv: Tensor) -> dict[str, object]:
        """The fields of a training step, without checksums.

        Args:
            t: the step.
            moved: what the world did.
            values: loss_*, grad_norm, outcome_labels and per_is_weight by name.
            replay: its tree and counters.
            isv: after this step's controllers.
        """
        labelled = int((values["outcome_labels"] >= 0).sum())
        scalars = [values[f"loss_{name}"].reshape(1) for name in LOSSES]
        per = [replay.tree["per_tree"][1:2], replay.counters["per_max_prio"].reshape(1)]
        per.append(learn.mean_loss(values["per_is_weight"], None, None).reshape(1))
        home = iter(torch.cat([*scalars, values["grad_norm"], isv[: len(learn.ISV)], *per]).tolist())
        fields: dict[str, object] = {
            "loss": {name: next(home) for name in LOSSES},
            "grad_norm": {name: next(home) for name in GROUPS},
            "isv": {name: next(home) for name in learn.ISV},
            "env": {**self.world(moved), "n_labelled": labelled},
            "per": {
                "root": next(home),
                "max_prio": next(home),
                "len": int(replay.counters["per_len"]),
                "mean_is_weight": next(home),
            },
        }
        if not labelled:
            fields["loss"]["outcome"] = None  # type: ignore[index]
        return fields

    def world(self, moved: Moved) -> dict[str, object]:
        """The env fields of any step."""
        mean = learn.mean_loss(moved.reward_raw, None, None)
        return {
            "n_done": int(moved.step.done.sum()),
            "n_wrap": int(moved.step.wrap.sum()),
            "n_fills": int(moved.step.fills.sum()),
            "mean_reward_raw": float(mean),
            "equity_usd": int(moved.step.equity_half_ticks.sum()) * self._tick_value_e4 / 20_000,
        }

    def line(self, t: int, phase: str, fields: dict[str, object], captured: Iterable[flow.Captured]) -> str:
        """JSON text of one step; `elapsed_s` last."""
        checksums: dict[str, dict[str, str]] = {}
        for buffer in captured:
            checksums.setdefault(buffer.group, {})[buffer.buffer] = buffer.digest
        nonfinite: list[str] = []
        head = {"step": t, "phase": phase, "seed": self._config.seed}
        body = {name: plain(value, name, nonfinite) for name, value in fields.items()}
        elapsed = round(time.perf_counter() - self._began, 3)
        return json.dumps(
            {**head, **body, "nonfinite": nonfinite, "checksums": checksums, "elapsed_s": elapsed}, allow_nan=False
        )


def plain(value: object, name: str, nonfinite: list[str]) -> object:
    """Floats (but money) as the shortest decimal of their float32; non-finite ones as null, noted by name."""
    if isinstance(value, dict):
        return {key: plain(inner, f"{name}.{key}", nonfinite) for key, inner in value.items()}
    if not isinstance(value, float) or name.endswith("_usd"):
        return value
    if not math.isfinite(value):
        nonfinite.append(name)
        return None
    return float(str(np.float32(value)))
