"""What tracking costs a training loop: `python -m benchmarks.track`, in a folder of its own.

Prints the seconds that 40 steps of 250 metrics wait in `metrics` (bound: 0.2), back to back and beside Python work that
shares the interpreter with the sending thread, and the seconds that `close` needs to send the rest. Then by how much a
tracked loop at default settings is slower: each step beside which the thread worked against the quiet steps around it.
The same steps of a loop without tracking are the control: what they show is noise.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path

from foxflow.config import Config, Recording
from foxflow.experiments.run import Options, perform
from foxflow.track import open_run

STEPS, METRICS = 40, 250
LOOP_STEPS = 800
"""A minute or two of loop, in which the thread sends every five seconds."""
SENDING_S = 5e-5
"""CPU seconds of the thread in a step from which on it counts as working: looking at its clock takes less."""
AROUND = 10
"""Quiet steps are looked for so many steps before and after."""


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


class Watch:
    """Notes when each step of a loop ended, and the CPU seconds of the sending thread, if there is one, by then."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.sent: list[float] = []

    def note(self, _done: int, _total: int, _phase: str) -> None:
        """To be called after each step."""
        self.ends.append(time.perf_counter())
        self.sent.append(_sender_seconds())

    def steps(self) -> list[float]:
        """Seconds of each step but the first."""
        return [b - a for a, b in pairwise(self.ends)]

    def sending(self) -> list[bool]:
        """Beside which steps the thread worked."""
        return [b - a > SENDING_S for a, b in pairwise(self.sent)]


def loop(*, track: bool) -> Watch:
    """A loop at default settings."""
    watch, config = Watch(), Config(seed=42, steps=LOOP_STEPS, eval_steps=0)
    perform(Options(config=config, recording=Recording(), track=track), watch.note)
    return watch


def cost(steps: list[float], marked: list[bool]) -> float:
    """By which share of a loop its marked steps take longer than the median of the unmarked steps around each."""
    extra = 0.0
    for i, at in enumerate(marked):
        near = range(max(0, i - AROUND), min(len(steps), i + AROUND + 1))
        quiet = [steps[j] for j in near if not marked[j]]
        extra += steps[i] - statistics.median(quiet) if at and quiet else 0.0
    return extra / (sum(steps) - extra)


def _sender_seconds() -> float:
    sender = next((thread for thread in threading.enumerate() if thread.name == "foxflow-metrics"), None)
    return int(Path(f"/proc/self/task/{sender.native_id}/schedstat").read_text().split()[0]) / 1e9 if sender else 0.0


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
            tracked, plain = loop(track=True), loop(track=False)
            marked = tracked.sending()
            share = tracked.sent[-1] / (tracked.ends[-1] - tracked.ends[0])
            print(f"{sum(marked)} of {len(marked)} steps beside sending, which takes {share:.4f} of the loop's seconds")
            print(f"the loop is slower by {cost(tracked.steps(), marked):.4f} for the steps beside sending")
            print(f"the same steps of a loop that is not tracked: {cost(plain.steps(), marked):.4f}")
        finally:
            os.chdir(here)


if __name__ == "__main__":
    main()
