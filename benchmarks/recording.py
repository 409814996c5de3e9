"""What recording a step costs the host once its sums are home: digests, diag line, the record's writer.

`python -m benchmarks.recording [OUT.json]`. 500 buffers a step and no dumps, a millisecond of rest between steps.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch

from benchmarks import table
from benchmarks.dumps import Row, manifest
from benchmarks.table import Spread
from foxflow import flow
from foxflow.branch import Branch
from foxflow.capture import Capture, captured, slots
from foxflow.config import Config
from foxflow.record import Writer
from foxflow.train.diag import Diag

BUFFERS, STEPS, REST = 500, 2000, 0.001
PARTS = ("digests", "diag line", "writer", "all")


def measured(folder: Path) -> list[Row]:
    """Milliseconds of each part over steps that are alike."""
    names = {f"adam_v.trunk.buffer_{i}": torch.full((3, i + 1), float(i)) for i in range(BUFFERS)}
    capture, diag = Capture(Branch()), Diag(Config(seed=42, steps=STEPS), 1)
    capture.take(names, slots([(name, "WKEO"[i % 4]) for i, name in enumerate(names)], 0, ()))
    taken, floats = capture.taken(), torch.rand(64).tolist()
    seconds: dict[str, list[float]] = {part: [] for part in PARTS}
    with Writer(folder / "record", manifest=manifest()) as writer:
        for step in range(STEPS):
            at = [time.perf_counter()]
            buffers = captured(taken.notes, taken.sums)
            at.append(time.perf_counter())
            line = diag.line(step, flow.TRAIN, diag.train(floats, range(7)), buffers)
            at.append(time.perf_counter())
            writer.write(flow.Step(step=step, phase=flow.TRAIN, buffers=buffers, diag=line))
            at.append(time.perf_counter())
            for part, first, last in zip(PARTS, (0, 1, 2, 0), (1, 2, 3, 3), strict=True):
                seconds[part].append(at[last] - at[first])
            time.sleep(REST)
    size = f"{BUFFERS} buffers"
    return [Row(part, size, "ms a step", Spread.of([1e3 * s for s in all_])) for part, all_ in seconds.items()]


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?")
    words = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="foxflow-recording-") as folder:
        rows = measured(Path(folder))
    table.show(("what", "size", "median (quartiles)", ""), [(r.what, r.size, r.value.text(), r.unit) for r in rows])
    table.write(words.out, "cpu", rows)


if __name__ == "__main__":
    main()
