"""A run's metrics on their way to the store, beside the training loop and out of its way."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Mapping

from foxflow.track.journal import Entry
from foxflow.track.outbox import Outbox
from foxflow.track.sampling import Sampler

BATCH = 1000
"""Metrics in one `log_batch`, MLflow's own limit."""

EVERY_S = 5.0
"""Pause between two looks at what came in."""

SHARE = 0.01
"""Of the time gone by that sending may compute while the run goes on: MLflow's Python shares the interpreter with the
training loop. What that does not suffice for is sent at the end; the journal has it meanwhile."""

_Point = tuple[int, int, dict[str, float | None]]


class Curves:
    """Takes metrics at once and sends them from a thread of its own.

    Args:
        outbox: the run's.
    """

    def __init__(self, outbox: Outbox) -> None:
        self.skipped = 0
        """Values that were not finite; None counts as one."""
        self._outbox = outbox
        self._points: deque[_Point] = deque()
        self._unsent: deque[Entry] = deque()
        self._failure: Exception | None = None
        self._sampler = Sampler()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="foxflow-metrics", daemon=True)
        self._thread.start()

    def add(self, step: int, values: Mapping[str, float | None]) -> None:
        """Note a step's numbers; returns at once."""
        self._points.append((step, time.time_ns() // 1_000_000, dict(values)))

    def close(self) -> None:
        """Send the rest. Raises what the thread met that was no word of a store."""
        self._closing.set()
        self._thread.join()
        if self._failure:
            raise self._failure

    def _run(self) -> None:
        began, spent = time.monotonic(), 0.0
        try:
            while not self._closing.wait(EVERY_S):
                self._note()
                while self._unsent and spent <= SHARE * (time.monotonic() - began):
                    at = time.thread_time()
                    self._outbox.deliver(self._unsent.popleft())
                    spent += time.thread_time() - at
            self._note()
            while self._unsent:
                self._outbox.deliver(self._unsent.popleft())
        except Exception as error:
            self._failure = error

    def _note(self) -> None:
        """Write what came in to the journal."""
        waiting = self._sampler.points()
        while self._points:
            step, at, values = self._points.popleft()
            sound = [[k, float(v), at, step] for k, v in values.items() if v is not None and math.isfinite(v)]
            self.skipped += len(values) - len(sound)
            waiting += sound
        for at in range(0, len(waiting), BATCH):
            self._unsent.append(self._outbox.journal.append("metrics", waiting[at : at + BATCH]))
