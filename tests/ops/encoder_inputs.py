"""Inputs of the encoder's operators at a shape, drawn from one seed; used by the tests and by fresh processes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from bits import sha
from torch import Tensor

from foxflow.ops import encoder, recurrence


@dataclass(frozen=True)
class Shape:
    B: int = 128
    T: int = 16
    F: int = 56
    H: int = 128
    N: int = 16
    P: int = 16
    dtype: torch.dtype = torch.float32

    @property
    def heads(self) -> int:
        return self.H // self.P

    @property
    def width(self) -> int:
        return 2 * self.H + 2 * self.N + self.heads


DEFAULT, TINY = Shape(), Shape(8, 4, 24, 16, 4, 4)
RAGGED = Shape(3, 5, 13, 57, 5, 19)  # no axis fills a group or a vector
EXACT = Shape(2, 3, 5, 6, 3, 3, torch.float64)
FORWARD = {
    "vsn": encoder.vsn_fwd,
    "mamba": recurrence.mamba_fwd,
    "layer_norm": encoder.layer_norm_fwd,
    "attention": encoder.attention_fwd,
    "cfc": recurrence.cfc_fwd,
}


def arguments(name: str, s: Shape, device: str = "cpu") -> tuple[Tensor | int, ...]:
    """What `<name>_fwd` takes."""
    g = torch.Generator().manual_seed(len(name) * 1009 + s.H)

    def draw(*sizes: int, scale: float = 1.0) -> Tensor:
        return (torch.randn(*sizes, generator=g, dtype=s.dtype) * scale).to(device)

    positive = lambda n: draw(n).abs() + 0.2  # noqa: E731
    if name == "vsn":
        return draw(s.B, s.T, s.F), draw(s.F, s.F, scale=0.2), draw(s.F)
    if name == "mamba":
        return draw(s.B, s.T, s.width), draw(s.heads) - 1, draw(s.heads, scale=0.5), draw(s.heads), s.N
    if name == "layer_norm":
        return draw(s.B * s.T, s.H), draw(s.B * s.T, s.H), draw(s.H), draw(s.H)
    if name == "attention":
        return draw(s.B, s.T, s.H), draw(s.H)
    rows = (draw(s.B, s.H) for _ in range(2))
    return *rows, draw(s.H), draw(s.B, s.H), positive(s.B), positive(s.H)


def backward(name: str, s: Shape, device: str = "cpu") -> tuple[Tensor, ...]:
    """What `<name>_bwd` takes: saved tensors of the forward and a gradient drawn for its last result but the gate's."""
    inputs = arguments(name, s, device)
    results = FORWARD[name](*inputs)
    grad = upstream(name, results)
    if name == "vsn":
        return inputs[0], results[0], grad
    if name == "mamba":
        return inputs[0], *results[:2], *inputs[1:4], grad
    if name == "layer_norm":
        return *results[1:], inputs[2], grad
    if name == "attention":
        return *inputs, results[0], grad
    return *results[:2], *inputs[3:], grad


BACKWARD = {
    "vsn": encoder.vsn_bwd,
    "mamba": recurrence.mamba_bwd,
    "layer_norm": encoder.layer_norm_bwd,
    "attention": encoder.attention_bwd,
    "cfc": recurrence.cfc_bwd,
}
FLOWS = {"vsn": 1, "mamba": 2, "layer_norm": 0, "attention": 1, "cfc": 2}
"""Which result carries gradients."""
ROWED = {
    "vsn": (0, 1, 2),
    "mamba": (0, 1, 2, 6),
    "layer_norm": (0, 1, 3),
    "attention": (0, 2, 3),
    "cfc": (0, 1, 2, 3, 5),
}
"""Which arguments of the backward have a row for each row of the result."""


def upstream(name: str, results: tuple[Tensor, ...]) -> Tensor:
    """A gradient of the result that carries one."""
    like = results[FLOWS[name]]
    g = torch.Generator().manual_seed(like.numel())
    return torch.randn(like.shape, generator=g, dtype=torch.float64).to(like)


def everything(device: str = "cpu") -> str:
    """One digest of all results of all operators, float32, at full, tiny and ragged shapes."""
    results: list[Tensor] = []
    for shape in (replace(DEFAULT, B=16), TINY, RAGGED):
        for name, call in FORWARD.items():
            results += call(*arguments(name, shape, device))
            grads = BACKWARD[name](*backward(name, shape, device))
            results += [grads] if isinstance(grads, Tensor) else grads
    return sha(*results)
