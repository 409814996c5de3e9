"""Our matrix products against torch.matmul (MKL, cuBLAS without TF32), at every shape that a step multiplies.

`python -m benchmarks.products [OUT.json] [--device cpu|cuda] [--batch N]` alternates the two in one process, on a CPU
with 1 and 2 threads, on a GPU by CUDA graphs, and prints medians: microseconds, GFLOP/s and the ratio of torch's time
over ours, of each shape and of all the calls of a step together.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from benchmarks import kernels, table
from foxflow.determinism import settings
from foxflow.ops import linalg

BATCH, PAIRS = 128, 25
TURN_S = 2e-4
"""One measurement repeats a call for about this long."""
THREADS = {"cpu": (1, 2), "cuda": (0,)}

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
    """One product of a step, ours and torch's."""

    name: str
    calls: int
    flop: int
    ours: Callable[[], torch.Tensor]
    torchs: Callable[[], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of one case: medians."""

    name: str
    calls: int
    threads: int
    ours_us: float
    torch_us: float
    ours_gflops: float
    ratio: float


def cases(device: str, batch: int) -> Iterator[Case]:
    """All products of a step at default shapes, but for the batch."""
    draw, times = partial(torch.randn, device=device), batch // BATCH
    for calls, m, k, n in taller(PLAIN, times):
        a, b = draw(m, k), draw(k, n)
        name, flop = f"{m}x{k} {k}x{n}", 2 * m * n * k
        yield Case(name, calls, flop, partial(linalg.matmul, a, b), partial(torch.matmul, a, b))
    for calls, m, k, n in taller(TRANSPOSED, times):
        a, b = draw(m, k), draw(n, k)
        name, flop = f"{m}x{k} ({n}x{k})T", 2 * m * n * k
        yield Case(name, calls, flop, partial(linalg.matmul_nt, a, b), partial(torch.matmul, a, b.T))
    for calls, rows, m, n, chunk in taller(ROWS, times):
        a, b = draw(rows, m), draw(rows, n)
        chunks = a.view(-1, chunk, m).transpose(1, 2), b.view(-1, chunk, n)
        name, flop = f"{rows // chunk} of ({chunk}x{m})T {chunk}x{n}", 2 * rows * m * n
        yield Case(name, calls, flop, partial(linalg.matmul_rows, a, b, chunk), partial(torch.matmul, *chunks))


def taller(shapes: Sequence[tuple[int, ...]], times: int) -> Iterator[tuple[int, ...]]:
    """The same with so many times the rows."""
    return ((calls, rows * times, *rest) for calls, rows, *rest in shapes)


def seconds(call: Callable[[], torch.Tensor], repeats: int) -> float:
    """Time of one call on the CPU, a mean of `repeats`."""
    began = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - began) / repeats


def pairs(case: Case, threads: int) -> list[tuple[float, float]]:
    """Microseconds of ours and torch's, in turn; no threads stand for the GPU."""
    if not threads:
        return [(kernels.microseconds(case.ours), kernels.microseconds(case.torchs)) for _ in range(3)]
    torch.set_num_threads(threads)
    once = min(seconds(case.torchs, 1) for _ in range(5))
    repeats = 1 + int(TURN_S / once)
    seconds(case.ours, repeats)
    return [(1e6 * seconds(case.ours, repeats), 1e6 * seconds(case.torchs, repeats)) for _ in range(PAIRS)]


def measure(case: Case, threads: int) -> Row:
    """Alternate ours and torch's."""
    found = pairs(case, threads)
    ours, torchs = (statistics.median(column) for column in zip(*found, strict=True))
    ratio = statistics.median(theirs / mine for mine, theirs in found)
    gflops = case.flop / ours / 1e3
    return Row(case.name, case.calls, threads, round(ours, 1), round(torchs, 1), round(gflops, 1), round(ratio, 2))


def whole(rows: list[Row], threads: int) -> Row:
    """All calls of a step together, in microseconds."""
    of = [row for row in rows if row.threads == threads]
    ours, torchs = sum(row.calls * row.ours_us for row in of), sum(row.calls * row.torch_us for row in of)
    flop = sum(row.calls * row.ours_us * row.ours_gflops for row in of)
    calls = sum(row.calls for row in of)
    return Row(
        "all of a step",
        calls,
        threads,
        round(ours, 1),
        round(torchs, 1),
        round(flop / ours, 1),
        round(torchs / ours, 2),
    )


def main() -> None:
    """Measure every case, print the table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--device", default="cpu", choices=sorted(THREADS))
    parser.add_argument("--batch", type=int, default=BATCH, help=f"a multiple of {BATCH}")
    words = parser.parse_args()
    if words.batch < BATCH or words.batch % BATCH:
        parser.error(f"--batch must be a multiple of {BATCH}, got {words.batch}")
    settings.fix()
    settings.keep_memory()
    torch.manual_seed(0)
    threads = THREADS[words.device]
    rows = [measure(case, n) for case in cases(words.device, words.batch) for n in threads]
    rows += [whole(rows, n) for n in threads]
    head = ("product", "calls", "threads", "ours us", "torch us", "GFLOP/s", "ratio")
    table.show(head, [(r.name, r.calls, r.threads, r.ours_us, r.torch_us, r.ours_gflops, r.ratio) for r in rows])
    table.write(words.out, words.device, rows)


if __name__ == "__main__":
    main()
