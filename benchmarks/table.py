"""What every benchmark hands on: a table on the terminal, and JSON with the machine and the date beside it."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of at least two values."""
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high)

    def text(self, scale: float = 1.0, digits: int = 2) -> str:
        """`median (low to high)`, times a scale."""
        low, median, high = (f"{x * scale:.{digits}f}" for x in (self.low, self.median, self.high))
        return f"{median} ({low} to {high})"


def machine(device: str) -> dict[str, Any]:
    """Where and when it was measured."""
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return {
        "on": f"{datetime.now(UTC):%Y-%m-%d}",
        "cpu": model[1].strip() if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "gpu": torch.cuda.get_device_name() if device == "cuda" else None,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 2),
    }


def show(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns, the first one to the left."""
    texts = [list(map(str, row)) for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for first, *rest in texts:
        print("  ".join([first.ljust(widths[0]), *(word.rjust(w) for word, w in zip(rest, widths[1:], strict=True))]))


def write(out: Path | None, device: str, rows: Sequence[Any]) -> None:
    """Write rows (dataclasses or dicts) as JSON, if there is a place for them."""
    if out is not None:
        plain = [row if isinstance(row, dict) else asdict(row) for row in rows]
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({"machine": machine(device), "rows": plain}, indent=1) + "\n", encoding="utf-8")
