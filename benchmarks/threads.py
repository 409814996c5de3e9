"""Time of a training step on 1 and on 2 CPU threads, side by side in one process: the ratio, a median of pairs.

Run it with `python -m benchmarks.threads`; it prints a table and writes JSON to the path given as its first word.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from foxflow import flow
from foxflow.config import Config, Recording
from foxflow.determinism import settings
from foxflow.experiments.run import Options, load_tape
from foxflow.train.trainer import Trainer

PAIRS = 25
WARM_UP = 3


def steps_of(level: str) -> Iterator[flow.Step]:
    """Steps of a clean run at default shapes."""
    config = Config(seed=42, steps=200)
    recording = Recording(level=level, dump_groups="")
    tape = load_tape(Options(config=config, recording=recording))
    return Trainer(config, recording, tape, torch.device("cpu")).run()


def measure(level: str) -> dict[str, float | str]:
    """Alternate 1 and 2 threads, one step each."""
    steps = steps_of(level)
    times: dict[int, list[float]] = {1: [], 2: []}
    for pair in range(PAIRS + WARM_UP):
        for threads in (1, 2):
            torch.set_num_threads(threads)
            began = time.perf_counter()
            next(steps)
            if pair >= WARM_UP:
                times[threads].append(time.perf_counter() - began)
    ratios = [two / one for one, two in zip(times[1], times[2], strict=True)]
    return {
        "record": level,
        "ms_1_thread": round(statistics.median(times[1]) * 1e3, 1),
        "ms_2_threads": round(statistics.median(times[2]) * 1e3, 1),
        "ratio": round(statistics.median(ratios), 3),
    }


def main() -> None:
    """Measure at each level of recording."""
    settings.fix()
    settings.keep_memory()
    rows = [measure(level) for level in ("all", "none")]
    print(f"{'--record':10} {'1 thread ms':>12} {'2 threads ms':>13} {'ratio':>7}")
    for row in rows:
        print(f"{row['record']:10} {row['ms_1_thread']:12} {row['ms_2_threads']:13} {row['ratio']:7}")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
