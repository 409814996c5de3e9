"""Weights, moments and targets of one agent, and the step that changes them."""

from __future__ import annotations

import torch
from torch import Tensor

from foxflow.agent.parameters import TARGETS, Layout, draw
from foxflow.agent.seams import Specimens, norms, scratch_sums, totals
from foxflow.config import CHUNK, Shape
from foxflow.ops import learn

Tensors = dict[str, Tensor]
TAU, TAU_BOUNDS = "trunk.cfc_tau", (0.05, 100.0)
"""The CfC cell's time constants stay in here, in seconds."""


def chunk_sums(rows: Tensor, batch: int, specimens: Specimens) -> Tensor:
    """Sum a scratch of group I, one row a batch row (or a batch row and time), inside chunks of batch rows."""
    return scratch_sums(rows.view(rows.shape[0], -1), CHUNK * (rows.shape[0] // batch), specimens)


def total(chunks: Tensor, specimens: Specimens) -> Tensor:
    """Sum over chunks, flat."""
    flat = chunks.view(chunks.shape[0], -1)
    out = flat.new_empty(flat.shape[1])
    totals(out, [flat], specimens)
    return out


def change(before_W: Tensor, after_W: Tensor) -> tuple[Tensor, Tensor]:
    """The norm of what weights moved by, and of the weights: what the controllers see of the trunk."""
    size = after_W.numel()
    moved, whole = learn.group_norm(torch.cat([after_W - before_W, after_W]), [0, size, 2 * size])
    return moved, whole


class Learner:
    """Everything that learning changes, in flat tensors with views by key.

    Args:
        s: sizes.
        seed: of the initial weights.
        device: where it lives.
        specimens: bugs that are switched on.
    """

    def __init__(self, s: Shape, seed: int, device: torch.device, specimens: Specimens = ()) -> None:
        self._shape, self._specimens = s, specimens
        self.layout, self.target_layout = Layout(s), Layout(s, TARGETS)
        drawn = draw(s, seed, specimens)
        self._flat = torch.cat([drawn[w.key].reshape(-1) for w in self.layout.weights]).to(device)
        self._target = torch.cat([drawn[w.key].reshape(-1) for w in self.target_layout.weights]).to(device)
        m, v = torch.zeros_like(self._flat), torch.zeros_like(self._flat)
        self.beta = torch.ones(2, device=device)
        self._state = learn.AdamState(w_W=self._flat, m_W=m, v_W=v, beta_2=self.beta)
        self.weights, self.targets = self.layout.views(self._flat), self.target_layout.views(self._target)
        self.m, self.v = self.layout.views(m), self.layout.views(v)
        self._grad = torch.zeros_like(self._flat)
        self.grads = self.layout.views(self._grad)
        self._before = self._flat[: self.layout.offsets[1]].clone()

    def reduce(self, scratch: Tensors, chunks: Tensors) -> Tensor:
        """Sum scratches and chunk sums to one gradient a weight; returns the norms of the groups, [8].

        Args:
            scratch: of group I, one row a batch row (or a batch row and time), by buffer name.
            chunks: sums over chunks of batch rows, by weight key.
        """
        batch = self._shape.B
        every = chunks | {SCRATCHES[name]: chunk_sums(x, batch, self._specimens) for name, x in scratch.items()}
        flat = [every[weight.key].view(every[weight.key].shape[0], -1) for weight in self.layout.weights]
        totals(self._grad, flat, self._specimens)
        return norms(self._grad, self.layout.offsets, self._specimens)

    def update(self, norm: Tensor, isv: Tensor) -> tuple[Tensor, Tensor]:
        """Take one Adam step and move the targets; returns |change| and |weights| of the trunk."""
        trunk = self._flat[: self.layout.offsets[1]]
        self._before.copy_(trunk)
        learn.adam(self._state, self._grad, norm, self.layout.offsets, isv)
        self.weights[TAU].clamp_(*TAU_BOUNDS)
        learn.polyak(self._target, self._sources())
        return change(self._before, trunk)

    def _sources(self) -> Tensor:
        return torch.cat([self.weights[w.key].reshape(-1) for w in self.target_layout.weights])

    def flat(self) -> Tensor:
        """All weights end to end, in table order."""
        return self._flat


SCRATCHES = {
    "vsn_grad_w_scratch": "trunk.vsn_w",
    "vsn_grad_b_scratch": "trunk.vsn_b",
    "grad_ln_a_gain_per_row": "trunk.ln_a_gain",
    "grad_ln_a_bias_per_row": "trunk.ln_a_bias",
    "grad_ln_b_gain_per_row": "trunk.ln_b_gain",
    "grad_ln_b_bias_per_row": "trunk.ln_b_bias",
    "attn_grad_q_scratch": "trunk.attn_q",
    "cfc_grad_w_in_scratch": "trunk.cfc_w_in",
    "cfc_grad_w_rec_scratch": "trunk.cfc_w_rec",
    "cfc_grad_b_scratch": "trunk.cfc_b",
    "cfc_grad_tau_scratch": "trunk.cfc_tau",
}
"""Scratch of group I -> the weight whose gradient it sums to."""
