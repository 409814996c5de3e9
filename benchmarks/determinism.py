"""What determinism costs on a GPU: `python -m benchmarks.determinism [OUT.json] [--batch 128,4096] [--rounds 40]`

The trainer as it is, against itself with sums over rows by float atomics (specimen float_atomics: weight gradients,
biases, scratches and the sums over chunks), with the same matrix product in both; and with cuBLAS in float32 without
TF32 besides. All steps are graphs and nothing is recorded. Contestants take turns; ratios are those of one round.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from benchmarks import table
from benchmarks.step import TURN, WARM_ROUNDS, by_turns, ours, turn
from benchmarks.table import Spread
from foxflow.config import PRESETS, Config, Shape
from foxflow.determinism import settings

OURS = "foxflow"
ATOMICS = ("float_atomics",)
CONTESTANTS = {
    OURS: {},
    "float atomics": {"specimens": ATOMICS},
    "cuBLAS": {"gemm": "cublas"},
    "cuBLAS, float atomics": {"gemm": "cublas", "specimens": ATOMICS},
}
"""Name -> what differs in the config."""


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant at one batch size; seconds a step, and foxflow's time over its own, of medians of rounds."""

    batch: int
    name: str
    seconds: Spread
    ours_against: Spread


def measure(shape: Shape, device: torch.device, rounds: int) -> list[Row]:
    """Every contestant at one batch size."""
    config = Config(seed=42, steps=(rounds + WARM_ROUNDS) * TURN[device.type], shape=shape)
    with tempfile.TemporaryDirectory(prefix="foxflow-determinism-") as folder:
        loops = {
            name: ours(name, replace(config, **change), "none", device, Path(folder))
            for name, change in CONTESTANTS.items()
        }
        times = by_turns({name: turn(loop, device) for name, loop in loops.items()}, device, rounds)
    return [
        Row(shape.B, name, Spread.of(seconds), Spread.of([a / b for a, b in zip(times[OURS], seconds, strict=True)]))
        for name, seconds in times.items()
    ]


def main() -> None:
    """Measure at each batch size, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--batch", default="128,4096", help="batch sizes, e.g. 128,4096")
    parser.add_argument("--rounds", type=int, default=40)
    words = parser.parse_args()
    settings.fix()
    rows = []
    for batch in map(int, words.batch.split(",")):
        rows += measure(replace(PRESETS["default"], B=batch), torch.device("cuda"), words.rounds)
    head = ("contestant", "batch", "ms a step (quartiles)", "foxflow's time / its")
    table.show(head, [(r.name, r.batch, r.seconds.text(1e3), r.ours_against.text(digits=3)) for r in rows])
    table.write(words.out, "cuda", rows)


if __name__ == "__main__":
    main()
