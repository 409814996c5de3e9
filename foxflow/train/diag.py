"""One line of diag.jsonl a step: losses, controllers, environment, replay and the step's checksums."""

from __future__ import annotations

import functools
import json
import math
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from foxflow import flow
from foxflow.agent.parameters import GROUPS
from foxflow.agent.stage import Named
from foxflow.config import Config
from foxflow.market.environment import Moved
from foxflow.ops import learn
from foxflow.replay import Replay
from foxflow.train.table import HEADS

Characters = npt.NDArray[np.uint8]
LOSSES = (*HEADS, "total")
JSON = json.JSONEncoder(allow_nan=False)
DIGITS = np.dtype("V32")
"""The hex digits of a digest."""


WORLD_INTS = 5
PNL = 4
"""Where the closed trades' profit in 1e-4 of the currency stands among the whole numbers."""


def world_numbers(moved: Moved) -> tuple[Tensor, Tensor]:
    """What any step tells of the world, still on the device: float32 [1] and int64 [5]."""
    step = moved.step
    counted = (step.done, step.wrap, step.fills, step.equity_half_ticks, step.trade_pnl_e4)
    return learn.mean_loss(moved.reward_raw, None, None).reshape(1), torch.stack([x.sum() for x in counted])


def train_numbers(world: tuple[Tensor, Tensor], values: Named, replay: Replay, isv: Tensor) -> tuple[Tensor, Tensor]:
    """What a training step tells, still on the device: float32 and int64, end to end.

    Args:
        world: of `world_numbers`.
        values: loss_*, grad_norm, outcome_labels and per_is_weight by name.
        replay: its tree and counters.
        isv: after this step's controllers.
    """
    mean, counts = world
    losses = [values[f"loss_{name}"].reshape(1) for name in LOSSES]
    per = [replay.tree["per_tree"][1:2], replay.counters["per_max_prio"].reshape(1)]
    per.append(learn.mean_loss(values["per_is_weight"], None, None).reshape(1))
    labelled = (values["outcome_labels"] >= 0).sum().reshape(1)
    floats = torch.cat([mean, *losses, values["grad_norm"], isv[: len(learn.ISV)], *per])
    return floats, torch.cat([counts, labelled, replay.counters["per_len"].reshape(1)])


class Diag:
    """Writes the lines; floats are the shortest decimals of their float32, what is not finite is null and listed.

    Args:
        config: of the run.
        tick_value_e4: worth of a tick in 1e-4 of the currency.
    """

    def __init__(self, config: Config, tick_value_e4: int) -> None:
        self._config, self._tick_value_e4, self._began = config, tick_value_e4, time.perf_counter()

    def train(self, floats: Sequence[float], ints: Sequence[int]) -> dict[str, object]:
        """The fields of a training step, without checksums.

        Args:
            floats: of `train_numbers`, on the host.
            ints: as floats.
        """
        world, (labelled, filled) = ints[:WORLD_INTS], ints[WORLD_INTS:]
        home = iter(floats[1:])
        fields: dict[str, object] = {
            "loss": {name: next(home) for name in LOSSES},
            "grad_norm": {name: next(home) for name in GROUPS},
            "isv": {name: next(home) for name in learn.ISV},
            "env": {**self.world(floats[:1], world), "n_labelled": labelled},
            "per": {"root": next(home), "max_prio": next(home), "len": filled, "mean_is_weight": next(home)},
        }
        if not labelled:
            fields["loss"]["outcome"] = None  # type: ignore[index]
        return fields

    def world(self, floats: Sequence[float], ints: Sequence[int]) -> dict[str, object]:
        """The env fields of any step, from `world_numbers` on the host."""
        return {
            "n_done": ints[0],
            "n_wrap": ints[1],
            "n_fills": ints[2],
            "mean_reward_raw": floats[0],
            "equity_usd": ints[3] * self._tick_value_e4 / 20_000,
        }

    def line(
        self, t: int, phase: str, fields: dict[str, object], captured: flow.Buffers | Iterable[flow.Captured]
    ) -> str:
        """JSON text of one step; `elapsed_s` last."""
        buffers, nonfinite = flow.Buffers.of(captured), list[str]()
        head = {"step": t, "phase": phase, "seed": self._config.seed}
        body = {name: plain(value, name, nonfinite) for name, value in fields.items()}
        text = JSON.encode({**head, **body, "nonfinite": nonfinite})
        checksums, elapsed = _gaps(buffers.columns).filled(buffers.digests), round(time.perf_counter() - self._began, 3)
        return f'{text[:-1]}, "checksums": {checksums}, "elapsed_s": {elapsed}}}'


@dataclass(frozen=True, slots=True)
class _Gaps:
    """JSON of a step's checksums with a gap for the digits of each digest."""

    text: Characters
    at: npt.NDArray[np.intp]
    """Where each gap begins in the text."""
    rows: npt.NDArray[np.intp]
    """Which digest fills each gap."""

    def filled(self, digests: bytes) -> str:
        """The text with digests of 16 bytes each."""
        text = self.text.copy()
        places = np.ndarray((max(text.size - 31, 0),), DIGITS, text, strides=(1,))
        places[self.at] = np.frombuffer(digests.hex().encode(), DIGITS)[self.rows]
        return text.tobytes().decode()


@functools.lru_cache(maxsize=64)
def _gaps(columns: flow.Columns) -> _Gaps:
    """Checksums by group and buffer, the last k of each."""
    last: dict[str, dict[str, int]] = {}
    for row, (group, buffer) in enumerate(zip(columns.group, columns.buffer, strict=True)):
        last.setdefault(group, {})[buffer] = row
    gap = "fx1:" + 32 * "?"
    text = json.dumps({group: dict.fromkeys(buffers, gap) for group, buffers in last.items()})
    begins = [found.end() - 32 for found in re.finditer(re.escape(gap), text)]
    rows = [row for buffers in last.values() for row in buffers.values()]
    return _Gaps(np.frombuffer(text.encode(), np.uint8), np.array(begins, np.intp), np.array(rows, np.intp))


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
