"""Twins of foxflow/ops/learn.py: results instead of changes in place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor


def group_norm(x_W: Tensor, offsets: Sequence[int]) -> Tensor:
    """Norm of each group in float64."""
    return torch.stack([x_W[a:b].double().norm() for a, b in pairwise(offsets)])


def adam(
    w_m_v_beta: Sequence[Tensor], grad_W: Tensor, norm_G: Tensor, offsets: Sequence[int], isv: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weights, moments and running products after a step, in float64."""
    w, m, v, beta = (x.double() for x in w_m_v_beta)
    sizes = torch.tensor([b - a for a, b in pairwise(offsets)], device=w.device)
    g = grad_W.double() / norm_G.double().clamp_min(1).repeat_interleave(sizes)
    beta = beta * torch.tensor([0.9, 0.999], dtype=torch.float64, device=w.device)
    m, v = torch.lerp(g, m, 0.9), torch.lerp(g.square(), v, 0.999)
    step = 3e-4 * isv[0].double() * m / (1 - beta[0]) / ((v / (1 - beta[1])).sqrt() + 1e-8)
    return w - step, m, v, beta


def polyak(target_W: Tensor, source_W: Tensor) -> Tensor:
    """The target after a step, in float64."""
    return torch.lerp(target_W.double(), source_W.double(), 0.005)


def mean_loss(row_loss_B: Tensor, weight_B: Tensor | None = None, label_B: Tensor | None = None) -> Tensor:
    """The mean in float64."""
    losses = row_loss_B.double() if weight_B is None else row_loss_B.double() * weight_B.double()
    return losses.mean() if label_B is None else losses.sum() / (label_B >= 0).sum().clamp_min(1)


def controllers(isv: Tensor, seen: Sequence[Tensor], step: int, steps: int) -> Tensor:
    """The next internal state variables in float64.

    Args:
        isv: [16].
        seen: pi_logits_BA, reward_raw_B, done_B, hold_steps_B, norm_delta, norm_weights.
        step: this step, counted from 0.
        steps: steps of the run.
    """
    s = isv.double().tolist()
    pi_logits_BA, reward_raw_B, done_B, hold_steps_B, norm_delta, norm_weights = (x.double() for x in seen)
    done, log_pi_BA = done_B > 0, pi_logits_BA.log_softmax(1)
    means: dict[int, float] = {
        5: float(-(log_pi_BA.exp() * log_pi_BA).sum(1).mean()),
        6: float(reward_raw_B.abs().mean()),
    }
    if bool(done.any()):
        means[7] = float(hold_steps_B[done].mean())
    if float(norm_weights) > 0:
        means[8] = float(norm_delta / norm_weights)
    for j, mean in means.items():
        s[j] = 0.95 * s[j] + 0.05 * mean
    s[9] += float(done.sum())
    s[1] = min(max(s[1] * math.exp(0.05 * (0.5 * math.log(pi_logits_BA.shape[1]) - s[5])), 1e-4), 0.1)
    s[3] = min(1.0, 0.4 + 0.6 * step / steps)
    s[4] = min(max(0.5 / (s[6] + 0.05), 0.1), 4.0)
    if bool(done.any()):
        s[2] = 0.95 * s[2] + 0.05 * (1 - 1 / min(max(2 * s[7], 50.0), 1000.0))
    pull = math.inf if s[8] == 0 else math.log(1e-3 / s[8])
    s[0] = min(max(s[0] * math.exp(0.02 * min(max(pull, -1.0), 1.0)), 0.1), 10.0)
    return torch.tensor(s, dtype=torch.float64, device=isv.device)
