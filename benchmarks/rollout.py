"""Environment steps a second, rollout only: look, act at random, settle, wrap; no network learns or acts.

`python -m benchmarks.rollout [OUT.json] [--device cpu|cuda] [--batch 128,4096]` plays the synthetic tape; on a GPU
from a CUDA graph of 64 steps. Medians and quartiles of 20 turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from benchmarks import table
from benchmarks.step import synchronize
from benchmarks.table import Spread
from foxflow.config import PRESETS, Config, Recording, Shape
from foxflow.determinism import settings
from foxflow.determinism.stream import Stream
from foxflow.experiments.run import Options, load_tape
from foxflow.market.environment import Environment, segments, start_cursors
from foxflow.ops.world import ACTIONS, ISV
from foxflow.ops.world_state import Contract
from foxflow.train.graph import Graph

TURNS, WARM, STEPS = 20, 3, 64


@dataclass(frozen=True, slots=True)
class Row:
    """Million environment steps a second at one batch size."""

    batch: int
    rate: Spread


def rollout(shape: Shape, device: torch.device) -> Callable[[], None]:
    """A function that plays STEPS steps of every environment."""
    tape = load_tape(Options(config=Config(seed=42, shape=shape), recording=Recording(dump_groups="")))
    segment, _ = segments(tape, device)
    cursors = start_cursors(Stream(42, 0), segment, shape)
    contract = Contract(tick_value_e4=tape.instrument.tick_value_e4, fee_e4=tape.instrument.fee_e4)
    market = Environment(segment, contract, shape, cursors)
    actions = torch.randint(ACTIONS, (STEPS, shape.B), dtype=torch.int32, device=device)
    steps, isv = torch.arange(STEPS, device=device), torch.ones(ISV, device=device)

    def play() -> None:
        for step, action in zip(steps, actions, strict=True):
            market.observe()
            market.jump(market.move(step, action, isv).step.wrap)

    return play


def captured(play: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """On a GPU, the same from one graph."""
    play()
    return Graph(play).launch if device.type == "cuda" else play


def measure(shape: Shape, device: torch.device) -> Row:
    """Rates of turns, the first ones untimed."""
    play, rates = captured(rollout(shape, device), device), []
    for turn in range(WARM + TURNS):
        began = time.perf_counter()
        play()
        synchronize(device)
        if turn >= WARM:
            rates.append(STEPS * shape.B / (time.perf_counter() - began) / 1e6)
    return Row(shape.B, Spread.of(rates))


def main() -> None:
    """Measure at each batch size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--batch", default="128,4096", help="batch sizes")
    words = parser.parse_args()
    settings.fix()
    device = torch.device(words.device)
    rows = [measure(replace(PRESETS["default"], B=int(batch)), device) for batch in words.batch.split(",")]
    table.show(("environments", "million steps a second (quartiles)"), [(r.batch, r.rate.text()) for r in rows])
    table.write(words.out, words.device, rows)


if __name__ == "__main__":
    main()
