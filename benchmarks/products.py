"""Our matrix products against torch.matmul (MKL), at every shape that a training step multiplies, in one process.

`python -m benchmarks.products [OUT.json]` alternates the two on 1 and 2 threads and prints medians: microseconds,
GFLOP/s and the ratio MKL's time over ours, of each shape and of all the calls of a step together.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from foxflow.determinism import settings
from foxflow.ops import linalg

PAIRS = 25
TURN_S = 2e-4
"""One measurement repeats a call for about this long."""
THREADS = (1, 2)

# Calls a step, rows and columns of a, columns of the product: a b, its bias left out.
PLAIN = [
    (8, 128, 128, 1),
    (10, 128, 128, 128),
    (4, 128, 128, 189),
    (2, 128, 128, 3),
    (2, 128, 128, 63),
    (7, 128, 128, 9),
    (10, 2048, 128, 128),
    (10, 2048, 128, 296),
    (5, 2048, 56, 128),
    (4, 4096, 128, 9),
    (4, 4096, 64, 128),
]
# The same of a b^T.
TRANSPOSED = [
    (2, 128, 1, 128),
    (2, 128, 128, 128),
    (2, 128, 189, 128),
    (2, 128, 3, 128),
    (2, 128, 63, 128),
    (2, 128, 9, 128),
    (4, 2048, 128, 128),
    (2, 2048, 128, 56),
    (4, 2048, 296, 128),
    (2, 4096, 9, 128),
]
# Calls a step, rows of both, columns of a and of b, rows a chunk: a^T b of each chunk.
ROWS = [
    (4, 128, 128, 1, 32),
    (4, 128, 128, 128, 1),
    (2, 128, 128, 189, 32),
    (2, 128, 128, 3, 32),
    (2, 128, 128, 63, 32),
    (4, 128, 128, 9, 32),
    (4, 2048, 128, 128, 512),
    (4, 2048, 128, 296, 512),
    (2, 2048, 56, 128, 512),
    (2, 2048, 56, 56, 16),
    (2, 4096, 128, 9, 1024),
    (2, 4096, 64, 128, 1024),
]


@dataclass(frozen=True, slots=True)
class Case:
    """One product of a step, ours and MKL's."""

    name: str
    calls: int
    flop: int
    ours: Callable[[], torch.Tensor]
    mkl: Callable[[], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of one case: medians."""

    name: str
    calls: int
    threads: int
    ours_us: float
    mkl_us: float
    ours_gflops: float
    ratio: float


def cases() -> Iterator[Case]:
    """All products of a step at default shapes."""
    for calls, m, k, n in PLAIN:
        a, b = torch.randn(m, k), torch.randn(k, n)
        name, flop = f"{m}x{k} {k}x{n}", 2 * m * n * k
        yield Case(name, calls, flop, lambda a=a, b=b: linalg.matmul(a, b), lambda a=a, b=b: a @ b)
    for calls, m, k, n in TRANSPOSED:
        a, b = torch.randn(m, k), torch.randn(n, k)
        name, flop = f"{m}x{k} ({n}x{k})T", 2 * m * n * k
        yield Case(name, calls, flop, lambda a=a, b=b: linalg.matmul_nt(a, b), lambda a=a, b=b: a @ b.T)
    for calls, rows, m, n, chunk in ROWS:
        a, b = torch.randn(rows, m), torch.randn(rows, n)
        chunks = a.view(-1, chunk, m).transpose(1, 2), b.view(-1, chunk, n)
        name, flop = f"{rows // chunk} of ({chunk}x{m})T {chunk}x{n}", 2 * rows * m * n
        ours = lambda a=a, b=b, chunk=chunk: linalg.matmul_rows(a, b, chunk)  # noqa: E731
        yield Case(name, calls, flop, ours, lambda of=chunks: of[0] @ of[1])


def seconds(call: Callable[[], torch.Tensor], repeats: int) -> float:
    """Time of one call, a mean of `repeats`."""
    began = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - began) / repeats


def measure(case: Case, threads: int) -> Row:
    """Alternate ours and MKL's."""
    torch.set_num_threads(threads)
    once = min(seconds(case.mkl, 1) for _ in range(5))
    repeats = 1 + int(TURN_S / once)
    seconds(case.ours, repeats)
    pairs = [(seconds(case.ours, repeats), seconds(case.mkl, repeats)) for _ in range(PAIRS)]
    ours, mkl = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(mkl / ours for ours, mkl in pairs)
    return Row(
        case.name,
        case.calls,
        threads,
        round(ours * 1e6, 1),
        round(mkl * 1e6, 1),
        round(case.flop / ours / 1e9, 1),
        round(ratio, 2),
    )


def whole(rows: list[Row], threads: int) -> Row:
    """All calls of a step together, in microseconds."""
    of = [row for row in rows if row.threads == threads]
    ours, mkl = sum(row.calls * row.ours_us for row in of), sum(row.calls * row.mkl_us for row in of)
    flop = sum(row.calls * row.ours_us * row.ours_gflops for row in of)
    calls = sum(row.calls for row in of)
    return Row(
        "all of a step", calls, threads, round(ours, 1), round(mkl, 1), round(flop / ours, 1), round(mkl / ours, 2)
    )


def main() -> None:
    """Measure every case and print the table."""
    settings.fix()
    settings.keep_memory()
    torch.manual_seed(0)
    rows = [measure(case, threads) for case in cases() for threads in THREADS]
    rows += [whole(rows, threads) for threads in THREADS]
    print(f"{'product':30} {'calls':>5} {'threads':>7} {'ours us':>9} {'MKL us':>9} {'GFLOP/s':>8} {'ratio':>6}")
    for r in rows:
        print(f"{r.name:30} {r.calls:5} {r.threads:7} {r.ours_us:9} {r.mkl_us:9} {r.ours_gflops:8} {r.ratio:6}")
    if len(sys.argv) > 1:
        machine = {
            "torch": torch.__version__,
            "cpu": torch.backends.cpu.get_cpu_capability(),
            "load": os.getloadavg()[0],
        }
        Path(sys.argv[1]).write_text(
            json.dumps({"machine": machine, "rows": [asdict(r) for r in rows]}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
