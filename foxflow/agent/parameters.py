"""Every weight of the agent in one table and one flat tensor; gradients and moments lie alongside."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from itertools import accumulate
from math import prod

import torch
from torch import Tensor

from foxflow.agent.seams import Specimens
from foxflow.config import Shape
from foxflow.determinism.init import scoped_init_seed, unseeded_scope, xavier

GROUPS = ("trunk", "q", "pi", "v", "iqn", "dueling", "frd", "outcome")
"""Gradient groups in table order; each is clipped by its own norm."""
TARGETS = ("q", "v", "iqn", "dueling")
"""Groups with a slowly following copy."""


@dataclass(frozen=True, slots=True)
class Weight:
    """One tensor: its key (`trunk.vsn_w`, `q_w`, `iqn.e_w`), gradient group, shape and how it starts."""

    key: str
    group: str
    shape: tuple[int, ...]
    start: str


def table(s: Shape) -> tuple[Weight, ...]:
    """List the weights in the order in which they are stored, drawn and summed."""
    trunk = [
        ("vsn_w", (s.F, s.F), "xavier"),
        ("vsn_b", (s.F,), "0"),
        ("in_w", (s.F, s.H), "xavier"),
        ("in_b", (s.H,), "0"),
    ]
    for m in ("ma", "mb"):
        trunk += [
            (f"{m}_u", (s.H, s.U), "xavier"),
            (f"{m}_dtb", (s.M,), "dt"),
            (f"{m}_alog", (s.M,), "log"),
            (f"{m}_d", (s.M,), "1"),
            (f"{m}_o", (s.H, s.H), "xavier"),
        ]
    trunk += [(f"ln_{n}_{part}", (s.H,), start) for n in "ab" for part, start in (("gain", "1"), ("bias", "0"))]
    trunk += [
        ("attn_q", (s.H,), "xavier"),
        ("cfc_w_in", (s.H, s.H), "xavier"),
        ("cfc_w_rec", (s.H, s.H), "xavier"),
        ("cfc_b", (s.H,), "0"),
        ("cfc_tau", (s.H,), "1"),
    ]
    heads = [
        ("q", "q", s.H, s.A * s.Z),
        ("pi", "pi", s.H, s.A),
        ("v", "v", s.H, 1),
        ("iqn.e", "iqn", s.E, s.H),
        ("iqn.o", "iqn", s.H, s.A),
        ("dueling.v", "dueling", s.H, 1),
        ("dueling.a", "dueling", s.H, s.A),
        ("frd", "frd", s.H, 3 * s.Y),
        ("outcome", "outcome", s.H, 3),
    ]
    weights = [Weight(f"trunk.{key}", "trunk", shape, start) for key, shape, start in trunk]
    for key, group, rows, columns in heads:
        start = "xavier" if key == "iqn.e" else "near_zero"
        weights += [Weight(f"{key}_w", group, (rows, columns), start), Weight(f"{key}_b", group, (columns,), "0")]
    return tuple(weights)


class Layout:
    """Where each weight lies in a flat tensor.

    Args:
        shape: sizes of the axes.
        groups: which gradient groups it holds, all by default.
    """

    def __init__(self, shape: Shape, groups: tuple[str, ...] = GROUPS) -> None:
        self.weights = tuple(w for w in table(shape) if w.group in groups)
        sizes = [prod(w.shape) for w in self.weights]
        self.starts = [0, *accumulate(sizes)]
        self.size = self.starts[-1]
        ends = {w.group: end for w, end in zip(self.weights, self.starts[1:], strict=True)}
        self.offsets = [0, *ends.values()]
        """Bounds of the gradient groups."""

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """The weights inside a flat tensor, by key, in order."""
        bounds = zip(self.weights, self.starts, self.starts[1:], strict=False)
        return {w.key: flat[start:end].view(w.shape) for w, start, end in bounds}


def draw(shape: Shape, seed: int, specimens: Specimens = ()) -> dict[str, Tensor]:
    """Draw the initial weights on the host: one seeded scope a group, tensors in table order.

    Args:
        shape: sizes of the axes.
        seed: of the run.
        specimens: `unseeded_outcome` draws the outcome head's matrix anew, outside every seeded scope.
    """
    drawn: dict[str, Tensor] = {}
    for group in GROUPS:
        with scoped_init_seed(seed, group):
            drawn |= {w.key: _start(w) for w in table(shape) if w.group == group}
    if "unseeded_outcome" in specimens:
        with unseeded_scope("outcome"):
            drawn |= {w.key: _start(w) for w in table(shape) if w.key == "outcome_w"}
    return drawn


def _start(weight: Weight) -> Tensor:
    if weight.start == "xavier":
        return xavier(weight.shape)
    if weight.start == "near_zero":
        return xavier(weight.shape, gain=0.01)
    if weight.start == "log":
        return torch.tensor([float(Decimal(m + 1).ln()) for m in range(weight.shape[0])])
    if weight.start == "dt":
        return torch.tensor([_inverse_softplus(m, weight.shape[0]) for m in range(weight.shape[0])])
    return torch.full(weight.shape, float(weight.start))


def _inverse_softplus(m: int, heads: int) -> float:
    """log(exp(y) - 1) for y log-spaced from 1e-3 to 1e-1; in decimals, for libm's logarithm is not one function."""
    with localcontext() as context:
        context.prec = 40
        y = Decimal(10) ** (Decimal(-3) + Decimal(2 * m) / Decimal(max(heads - 1, 1)))
        return float((y.exp() - 1).ln())
