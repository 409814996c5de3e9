"""What tracking costs a training loop: `python -m benchmarks.track`, in a folder of its own.

Prints the seconds that 40 steps of 250 metrics wait in `metrics` (bound: 0.2), back to back and beside Python work that
shares the interpreter with the sending thread, the seconds that `close` needs to send the rest, and the ratio of the
loop's seconds with `--track on` to those with `--track none`, of pairs of fresh runs.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from pathlib import Path

from foxflow.config import Config, Recording
from foxflow.experiments.rerun import launch
from foxflow.experiments.run import Options, perform
from foxflow.track import open_run

STEPS, METRICS = 40, 250
PAIRS = 5
RUN = ("run", "--seed", "42", "--steps", "100", "--eval-steps", "0")
"""A dozen seconds of loop at default settings, two sendings within it."""


def measure(work_s: float) -> tuple[float, float, float]:
    """Seconds in `metrics`, seconds by which the work beside it slows down, seconds in `close`."""
    run = open_run(f"work {work_s}", {}, {})
    values = {f"group.metric_{i}": i / 8 for i in range(METRICS)}
    began = time.perf_counter()
    for _ in range(STEPS):
        count_to(work_s)
    alone = time.perf_counter() - began
    waited, began = 0.0, time.perf_counter()
    for step in range(STEPS):
        count_to(work_s)
        at = time.perf_counter()
        run.metrics(step, values)
        waited += time.perf_counter() - at
    beside = time.perf_counter() - began
    at = time.perf_counter()
    run.close(None)
    return waited, beside - waited - alone, time.perf_counter() - at


def count_to(work_s: float) -> None:
    """A fixed amount of Python work, about `work_s` seconds on a 3 GHz core."""
    for _ in range(int(work_s * 40_000_000)):
        pass


def ratios() -> list[float]:
    """Seconds of a tracked loop over those of one that is not, pair by pair; who goes first alternates."""
    found = []
    for pair in range(PAIRS):
        order = ("on", "none") if pair % 2 else ("none", "on")
        seconds = {track: launch([*RUN, "--track", track])["seconds"] for track in order}
        found.append(seconds["on"] / seconds["none"])
    return found


def share() -> float:
    """CPU seconds of the sending thread over a loop's seconds at default settings: a busy machine blurs it less."""
    config, recording = Config(seed=42, steps=100, eval_steps=0), Recording()
    marks: list[tuple[float, float]] = []

    def note(_done: int, _total: int, _phase: str) -> None:
        marks.append((time.perf_counter(), _sender_seconds()))

    perform(Options(config=config, recording=recording), note)
    return (marks[-1][1] - marks[0][1]) / (marks[-1][0] - marks[0][0])


def _sender_seconds() -> float:
    sender = next(thread for thread in threading.enumerate() if thread.name == "foxflow-metrics")
    fields = Path(f"/proc/self/task/{sender.native_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure in a folder of its own."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="foxflow-track-") as folder:
        os.chdir(folder)
        try:
            for work_s in (0.0, 0.05):
                waited, slower, closing = measure(work_s)
                times = f"metrics {waited:.4f} s, loop slower by {slower:.3f} s, close {closing:.2f} s"
                print(f"work {work_s:.2f} s a step: {times}")
            print(f"the sending thread takes {share():.4f} of the loop's seconds")
            found = ratios()
            shown = " ".join(f"{one:.3f}" for one in found)
            print(f"loop with --track on / none: median {statistics.median(found):.3f} of {shown}")
        finally:
            os.chdir(here)


if __name__ == "__main__":
    main()
