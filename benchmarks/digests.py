"""The digest on one core, by instruction set, against SHA-256 and torch.hash_tensor: GB/s.

`python -m benchmarks.digests [OUT.json]` digests 64 MiB (memory) and 1 MiB (cache). An instruction set is chosen when
a process starts, so each turn starts one for every level that the processor has; the turns go round three times and
the medians are printed.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from foxflow.experiments.invariance import simd_here
from foxflow.ops import digest

TURNS, CALLS = 3, 15
SIZES = {"64 MiB": 64 << 20, "1 MiB": 1 << 20}


def rate(call: Callable[[], object], size: int) -> float:
    """GB/s, the median of calls."""
    times = []
    for _ in range(CALLS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return size / statistics.median(times) / 1e9


def of_this_level() -> dict[str, float]:
    """Rates of the digest in this process, by size."""
    torch.set_num_threads(1)
    buffers = {name: torch.randint(0, 256, (size,), dtype=torch.uint8) for name, size in SIZES.items()}
    return {name: rate(lambda x=x: digest.sums([x]), x.numel()) for name, x in buffers.items()}


def others() -> dict[str, dict[str, float]]:
    """Rates of the other two, by name and size."""
    torch.set_num_threads(1)
    buffers = {name: torch.randint(0, 256, (size,), dtype=torch.uint8) for name, size in SIZES.items()}
    found = {"SHA-256": {n: rate(lambda x=x: hashlib.sha256(x.numpy().data), x.numel()) for n, x in buffers.items()}}
    if hasattr(torch, "hash_tensor"):
        words = {name: x.view(torch.int64) for name, x in buffers.items()}
        found["torch.hash_tensor"] = {
            n: rate(lambda x=x: torch.hash_tensor(x), 8 * x.numel()) for n, x in words.items()
        }
    return found


def turn() -> dict[str, dict[str, float]]:
    """One process for each level, then the others."""
    rates = {}
    for level in simd_here():
        command = [sys.executable, "-m", "benchmarks.digests", "--here"]
        done = subprocess.run(command, env={**os.environ, "FOXFLOW_SIMD": level}, capture_output=True, check=True)
        rates[f"fx1 {level}"] = json.loads(done.stdout)
    return rates | others()


def main() -> None:
    """Print the table of medians."""
    if sys.argv[1:] == ["--here"]:
        print(json.dumps(of_this_level()))
        return
    turns = [turn() for _ in range(TURNS)]
    rows = {
        name: {size: round(statistics.median(t[name][size] for t in turns), 2) for size in SIZES} for name in turns[0]
    }
    print(f"{'one core, GB/s':20}" + "".join(f"{size:>10}" for size in SIZES))
    for name, rates in rows.items():
        print(f"{name:20}" + "".join(f"{rates[size]:10}" for size in SIZES))
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(
            json.dumps({"torch": torch.__version__, "load": os.getloadavg()[0], "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
