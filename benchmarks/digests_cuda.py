"""The digest on a GPU: one large buffer against torch.sum, many small ones against torch.hash_tensor.

`python -m benchmarks.digests_cuda [OUT.json]`. Large: 4 GiB, kernels alone by CUDA events. Small: 300 buffers, 55 MB in
all, of sizes that differ, from the call until the result is on the host; foxflow's also from a CUDA graph, as in a run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks import table
from benchmarks.table import Spread
from foxflow.ops import digest
from foxflow.train.graph import Graph

TURNS, WARM = 30, 5
LARGE, COUNT, SMALL = 4 << 30, 300, 55_000_000


@dataclass(frozen=True, slots=True)
class Row:
    """One way to check buffers: microseconds, and bytes over them."""

    buffers: str
    name: str
    us: Spread
    gb_per_s: float


def turns(once: Callable[[], float]) -> Spread:
    """Of a measurement in microseconds, the first ones left out."""
    return Spread.of([once() for _ in range(WARM + TURNS)][WARM:])


def on_device(call: Callable[[], object]) -> float:
    """Microseconds between two events around a call."""
    began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    began.record()
    call()
    ended.record()
    ended.synchronize()
    return began.elapsed_time(ended) * 1e3


def on_host(call: Callable[[], object]) -> float:
    """Microseconds until a call, which waits for its result, returns."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e6


def small_buffers() -> list[Tensor]:
    """Sizes from 1 : 2 : … : 300, whole words, SMALL bytes in all."""
    unit = SMALL / (COUNT * (COUNT + 1) / 2)
    return [
        torch.randint(256, (int(unit * i) // 8 * 8,), dtype=torch.uint8, device="cuda") for i in range(1, COUNT + 1)
    ]


def from_graph(buffers: list[Tensor]) -> Callable[[], None]:
    """The sums into pinned memory, by one graph."""
    home = torch.empty(len(buffers), 2, dtype=torch.int64, pin_memory=True)
    digest.sums(buffers)
    graph, done = Graph(lambda: home.copy_(digest.sums(buffers), non_blocking=True)), torch.cuda.Event()

    def call() -> None:
        graph.launch()
        done.record()
        done.synchronize()

    return call


def measure() -> list[Row]:
    """Every way, the large buffer first."""
    large = torch.randint(256, (LARGE,), dtype=torch.uint8, device="cuda")
    words = large.view(torch.float32)
    ways = {"fx1": lambda: digest.sums([large]), "torch.sum, float32": words.sum}
    ways["torch.sum, int64"] = lambda: large.view(torch.int64).sum()
    found = [("4 GiB", name, turns(partial(on_device, call)), LARGE) for name, call in ways.items()]
    small = small_buffers()
    size = sum(b.numel() for b in small)
    hashes = lambda: torch.stack([torch.hash_tensor(b.view(torch.int64)) for b in small]).cpu()  # noqa: E731
    ways = {"fx1, a graph": from_graph(small), "fx1": lambda: digest.sums(small).cpu(), "torch.hash_tensor": hashes}
    found += [
        (f"{COUNT}, {SMALL / 1e6:.0f} MB", name, turns(partial(on_host, call)), size) for name, call in ways.items()
    ]
    return [Row(of, name, us, size / us.median / 1e3) for of, name, us, size in found]


def main() -> None:
    """Measure, print, write JSON."""
    rows = measure()
    head = ("buffers", "what", "us (quartiles)", "GB/s")
    table.show(head, [(r.buffers, r.name, r.us.text(digits=1), round(r.gb_per_s)) for r in rows])
    table.write(Path(sys.argv[1]) if len(sys.argv) > 1 else None, "cuda", rows)


if __name__ == "__main__":
    main()
