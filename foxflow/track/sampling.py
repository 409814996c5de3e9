"""System metrics under the names of MLflow's own, so that the run's page shows them in their own tab."""

from __future__ import annotations

import time


class Sampler:
    """CPU and memory, read where metrics are sent: in their thread, not in the training loop."""

    def __init__(self) -> None:
        self._step = 0

    def points(self) -> list[list[object]]:
        """One sample: [key, value, milliseconds, number of the sample]; CPU is the mean since the one before."""
        import psutil

        memory = psutil.virtual_memory()
        found = {
            "cpu_utilization_percentage": psutil.cpu_percent(),
            "system_memory_usage_megabytes": round(memory.used / 1e6, 1),
            "system_memory_usage_percentage": round(memory.used / memory.total * 100, 1),
            "process_memory_usage_megabytes": round(psutil.Process().memory_info().rss / 1e6, 1),
        }
        at, self._step = time.time_ns() // 1_000_000, self._step + 1
        return [[f"system/{name}", float(value), at, self._step - 1] for name, value in found.items()]
