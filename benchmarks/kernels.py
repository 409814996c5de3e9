"""Time of each operator on the GPU at the default shape: its kernels alone, captured in a CUDA graph.

Run it with `python -m benchmarks.kernels`; it prints microseconds a call, a median of 5 times 50 replays, the slowest
first, and writes JSON to the path given as its first word.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from foxflow.config import CHUNK, Shape
from foxflow.ops import encoder, iqn, learn, linalg, losses, recurrence, targets

ROUNDS, REPLAYS = 5, 50

Calls = dict[str, Callable[[], object]]


def draw(*sizes: int) -> Tensor:
    """Normal numbers on the GPU."""
    return torch.randn(*sizes, device="cuda")


def whole(n: int, *sizes: int) -> Tensor:
    """Numbers below n."""
    return torch.randint(n, sizes, device="cuda", dtype=torch.int32)


def products(s: Shape) -> Calls:
    """The products of a step, by shape m x k x n; chunks of rows where the weights' gradients are summed."""
    rows = s.B * s.T
    calls: Calls = {}
    forward = {(rows, s.F, s.H), (rows, s.H, s.U), (rows, s.H, s.H), (s.B, s.H, s.H), (s.B, s.H, s.A * s.Z)}
    forward |= {(s.B, s.H, 1), (s.B, s.H, s.A), (s.B * s.Q, s.E, s.H), (s.B * s.Q, s.H, s.A)}
    back = {(rows, s.H, s.H), (rows, s.U, s.H), (rows, s.H, s.F), (s.B, s.A * s.Z, s.H), (s.B * s.Q, s.A, s.H)}
    sums = {(rows, s.F, s.H, CHUNK * s.T), (rows, s.H, s.U, CHUNK * s.T), (rows, s.H, s.H, CHUNK * s.T)}
    sums |= {(s.B, s.H, s.H, 1), (rows, s.F, s.F, s.T), (s.B, s.H, s.A * s.Z, CHUNK)}
    sums |= {(s.B * s.Q, s.H, s.A, CHUNK * s.Q), (s.B * s.Q, s.E, s.H, CHUNK * s.Q)}
    for m, k, n in sorted(forward):
        a, b = draw(m, k), draw(k, n)
        calls[f"matmul {m}x{k}x{n}"] = partial(linalg.matmul, a, b)
    for m, k, n in sorted(back):
        a, b = draw(m, k), draw(n, k)
        calls[f"matmul_nt {m}x{k}x{n}"] = partial(linalg.matmul_nt, a, b)
    for r, m, n, chunk in sorted(sums):
        a, b = draw(r, m), draw(r, n)
        calls[f"matmul_rows {r}x{m}x{n} by {chunk}"] = partial(linalg.matmul_rows, a, b, chunk)
    return calls


def row_sums(s: Shape) -> Calls:
    """Row sums of a step: columns by rows a chunk."""
    shapes = {(s.B * s.T, s.H, CHUNK * s.T), (s.B * s.Q, s.A, CHUNK * s.Q), (s.B, s.H * s.H, CHUNK), (4, s.H * s.U, 4)}
    return {
        f"sum_rows {r}x{n} by {chunk}": partial(linalg.sum_rows, draw(r, n), chunk) for r, n, chunk in sorted(shapes)
    }


def encoders(s: Shape) -> Calls:
    """The encoder's operators, forward and backward."""
    x, w, b = draw(s.B, s.T, s.F), draw(s.F, s.F) / 8, draw(s.F)
    u, head, e, q = draw(s.B, s.T, s.U), (draw(s.M), draw(s.M), draw(s.M)), draw(s.B, s.T, s.H), draw(s.H)
    gate, out = encoder.vsn_fwd(x, w, b)
    state, y, _ = recurrence.mamba_fwd(u, *head, s.N, 4)
    rows, gain, bias = e.view(-1, s.H), draw(s.H), draw(s.H)
    _, norm, rstd = encoder.layer_norm_fwd(rows, rows, gain, bias)
    alpha, context = encoder.attention_fwd(e, q)
    return {
        "vsn_fwd": lambda: encoder.vsn_fwd(x, w, b),
        "vsn_bwd": lambda: encoder.vsn_bwd(x, gate, out),
        "mamba_fwd, every fourth state": lambda: recurrence.mamba_fwd(u, *head, s.N, 4),
        "mamba_fwd, last state": lambda: recurrence.mamba_fwd(u, *head, s.N, s.T),
        "mamba_bwd": lambda: recurrence.mamba_bwd(u, state, y, *head, e),
        "layer_norm_fwd": lambda: encoder.layer_norm_fwd(rows, rows, gain, bias),
        "layer_norm_bwd": lambda: encoder.layer_norm_bwd(norm, rstd, gain, rows),
        "attention_fwd": lambda: encoder.attention_fwd(e, q),
        "attention_bwd": lambda: encoder.attention_bwd(e, q, alpha, context),
    }


def heads(s: Shape) -> Calls:
    """The heads' targets and losses, and what follows the gradients."""
    action, weight, isv = whole(s.A, s.B), draw(s.B).abs(), torch.full((16,), 0.9, device="cuda")
    after = draw(s.B), torch.zeros(s.B, dtype=torch.uint8, device="cuda"), isv
    logits, q, tau = draw(s.B, s.A, s.Z), draw(s.B, s.Q, s.A), draw(s.B, s.Q).sigmoid()
    mass, pre, h = draw(s.B, s.Z).softmax(1), draw(s.B, s.Q, s.H), draw(s.B, s.H)
    frd, frd_labels, outcome, labels = draw(s.B, 3, s.Y), whole(s.Y, s.B, 3), draw(s.B, 3), whole(3, s.B)
    weights, offsets = draw(240_000), [0, 150_000, 180_000, 200_000, 240_000]
    return {
        "c51_target": lambda: targets.c51_target(logits, *after),
        "iqn_target": lambda: targets.iqn_target(q, *after),
        "c51_loss": lambda: losses.c51_loss(logits, mass, action, weight),
        "iqn_loss": lambda: losses.iqn_loss(q, tau, tau, action, weight),
        "frd_loss": lambda: losses.frd_loss(frd, frd_labels),
        "outcome_loss": lambda: losses.outcome_loss(outcome, labels),
        "iqn_mix_fwd": lambda: iqn.iqn_mix_fwd(pre, h),
        "iqn_mix_bwd": lambda: iqn.iqn_mix_bwd(pre, h, pre),
        "mean_loss": lambda: learn.mean_loss(weight, weight),
        "group_norm": lambda: learn.group_norm(weights, offsets),
    }


def microseconds(call: Callable[[], object]) -> float:
    """Of one call, from graphs of ten so that a graph's own launch weighs little."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        call()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(10):
            call()
    times = []
    for _ in range(ROUNDS):
        began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        began.record()
        for _ in range(REPLAYS):
            graph.replay()
        ended.record()
        ended.synchronize()
        times.append(began.elapsed_time(ended) * 1e3 / REPLAYS / 10)
    return round(statistics.median(times), 2)


def main() -> None:
    """Measure every operator."""
    s = Shape()
    calls = {**encoders(s), **products(s), **row_sums(s), **heads(s)}
    times = {name: microseconds(call) for name, call in calls.items()}
    for name, time in sorted(times.items(), key=lambda item: -item[1]):
        print(f"{time:9.2f} us  {name}")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(times, indent=1) + "\n")


if __name__ == "__main__":
    main()
