"""Twins of foxflow/ops/{policy,iqn,dueling,targets,losses}.py.

Axes: B batch rows, A actions, Z atoms, Q quantiles, E cosines, H hidden, S horizons, Y bins, O outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

GAMMA, ENT_COEF = 2, 1
WORD = 0xFFFFFFFF
RowLoss = tuple[Tensor, Tensor]


def xorshift32(x: Tensor) -> Tensor:
    """One step (13, 17, 5) of int64 tensors that hold 32-bit words."""
    x = x ^ (x << 13) & WORD
    x = x ^ x >> 17
    return x ^ (x << 5) & WORD


def unit(x: Tensor) -> Tensor:
    """((x >> 9) + 1/2) 2^-23."""
    return ((x >> 9).double() + 0.5) * 2.0**-23


def sample_action(logits_BA: Tensor, prng_B: Tensor) -> tuple[Tensor, Tensor]:
    """Inverse CDF of softmax at the draw of each state; log-softmax there."""
    log_pi = torch.log_softmax(logits_BA.double(), 1)
    u = unit(xorshift32(prng_B.long()))
    action = (u[:, None] >= log_pi.exp().cumsum(1)).sum(1).clamp_max(logits_BA.shape[1] - 1)
    return action.int(), log_pi.gather(1, action[:, None])[:, 0]


def greedy_action(logits_BA: Tensor) -> Tensor:
    """Lowest index of the largest logit."""
    return (logits_BA == logits_BA.max(1, keepdim=True).values).int().argmax(1).int()


def prng_advance(prng_B: Tensor, times: int) -> Tensor:
    """The advanced states (the operator writes them in place)."""
    x = prng_B.long()
    for _ in range(times):
        x = xorshift32(x)
    return x.to(torch.uint32)


def iqn_tau_cos(prng_B: Tensor, quantiles: int, cosines: int) -> tuple[Tensor, Tensor]:
    """Quantiles of each state and cos(pi e tau)."""
    counter = torch.arange(1, quantiles + 1, device=prng_B.device)
    x = prng_B.long()[:, None] + (0x9E3779B9 * counter & WORD) & WORD
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        x = x ^ x >> shift
        low, high = x & 0xFFFF, x >> 16
        x = low * factor + ((high * factor & 0xFFFF) << 16) & WORD
    tau = unit(x)
    e = torch.arange(cosines, dtype=torch.float64, device=tau.device)
    return tau, torch.cos(math.pi * e * tau[..., None])


def iqn_mix_fwd(pre_BQH: Tensor, h_BH: Tensor) -> Tensor:
    """The state behind a stop-gradient times relu(pre)."""
    return h_BH.double().detach()[:, None] * pre_BQH.double().relu()


def dueling_compose(v_B1: Tensor, a_BA: Tensor) -> Tensor:
    """V + A - mean A."""
    return v_B1.double() + a_BA.double() - a_BA.double().mean(1, keepdim=True)


def _bellman(next_: Tensor, reward_B: Tensor, done_B: Tensor, isv: Tensor) -> Tensor:
    shape = (-1,) + (1,) * (next_.ndim - 1)
    keep = isv[GAMMA].double() * (done_B == 0).double()
    return reward_B.double().view(shape) + keep.view(shape) * next_.double()


def c51_target(logits_BAZ: Tensor, reward_B: Tensor, done_B: Tensor, isv: Tensor) -> Tensor:
    """Projection by the triangular kernel: atom k gets sum_j p_j max(0, 1 - |y_j - k|)."""
    batch, atoms = logits_BAZ.shape[0], logits_BAZ.shape[2]
    z = torch.linspace(-2, 2, atoms, dtype=torch.float64, device=logits_BAZ.device)
    p = torch.softmax(logits_BAZ.double(), 2)
    rows = torch.arange(batch, device=p.device)
    greedy = p[rows, (p @ z).argmax(1)]
    y = (_bellman(z.expand(batch, atoms), reward_B, done_B, isv).clamp(-2, 2) + 2) * (atoms - 1) / 4
    share = (1 - (y[:, :, None] - torch.arange(atoms, device=p.device)).abs()).clamp_min(0)
    return (greedy[:, :, None] * share).sum(1)


def v_target(v_B1: Tensor, reward_B: Tensor, done_B: Tensor, isv: Tensor) -> Tensor:
    """r + gamma (1 - d) v."""
    return _bellman(v_B1[:, 0], reward_B, done_B, isv)


def iqn_target(q_BQA: Tensor, reward_B: Tensor, done_B: Tensor, isv: Tensor) -> Tensor:
    """r + gamma (1 - d) q_j of the action with the largest mean."""
    q = q_BQA.double()
    greedy = q.mean(1).argmax(1)
    return _bellman(q[torch.arange(len(q), device=q.device), :, greedy], reward_B, done_B, isv)


def dueling_target(q_BA: Tensor, reward_B: Tensor, done_B: Tensor, isv: Tensor) -> Tensor:
    """r + gamma (1 - d) max q."""
    return _bellman(q_BA.max(1).values, reward_B, done_B, isv)


def _differentiate(x: Tensor, rows: Callable[[Tensor], Tensor], scale: Tensor | float) -> RowLoss:
    """Row losses, and autograd's gradient of the sum of scale times row."""
    leaf = x.detach().double().requires_grad_()
    loss = rows(leaf)
    (grad,) = torch.autograd.grad((loss * scale).sum(), leaf)
    return loss.detach(), grad


def _huber(u: Tensor) -> Tensor:
    return torch.nn.functional.huber_loss(u, torch.zeros_like(u), reduction="none")


def c51_loss(logits_BAZ: Tensor, target_BZ: Tensor, action_B: Tensor, weight_B: Tensor) -> RowLoss:
    """Cross-entropy of the taken action's distribution against the target."""
    rows = torch.arange(len(logits_BAZ), device=logits_BAZ.device)
    return _differentiate(
        logits_BAZ,
        lambda x: -(target_BZ.double() * torch.log_softmax(x[rows, action_B.long()], 1)).sum(1),
        weight_B.double() / len(logits_BAZ),
    )


def pi_loss(logits_BA: Tensor, action_B: Tensor, log_pi_old_B: Tensor, advantage_B: Tensor, isv: Tensor) -> RowLoss:
    """Clipped surrogate with entropy."""

    def rows(x: Tensor) -> Tensor:
        log_pi = torch.log_softmax(x, 1)
        ratio = (log_pi.gather(1, action_B.long()[:, None])[:, 0] - log_pi_old_B.double()).exp()
        gain = torch.minimum(ratio * advantage_B.double(), ratio.clamp(0.8, 1.2) * advantage_B.double())
        return -gain + isv[ENT_COEF].double() * (log_pi.exp() * log_pi).sum(1)

    return _differentiate(logits_BA, rows, 1 / max(len(logits_BA), 1))


def v_loss(v_B1: Tensor, target_B: Tensor) -> RowLoss:
    """Half the squared error."""
    return _differentiate(v_B1, lambda x: 0.5 * (x[:, 0] - target_B.double()) ** 2, 1 / len(v_B1))


def iqn_loss(q_BQA: Tensor, tau_BQ: Tensor, target_BQ: Tensor, action_B: Tensor, weight_B: Tensor) -> RowLoss:
    """Quantile Huber loss, summed over the drawn quantiles, mean over the target's."""
    at = torch.arange(len(q_BQA), device=q_BQA.device)

    def rows(x: Tensor) -> Tensor:
        u = target_BQ.double()[:, None, :] - x[at, :, action_B.long()][:, :, None]
        tilt = (tau_BQ.double()[:, :, None] - (u < 0).double()).abs()
        return (tilt * _huber(u)).mean(2).sum(1)

    return _differentiate(q_BQA, rows, weight_B.double() / len(q_BQA))


def dueling_loss(q_BA: Tensor, target_B: Tensor, action_B: Tensor, weight_B: Tensor) -> RowLoss:
    """Huber loss of the taken action's value."""
    return _differentiate(
        q_BA,
        lambda x: _huber(x.gather(1, action_B.long()[:, None])[:, 0] - target_B.double()),
        weight_B.double() / len(q_BA),
    )


def _cross_entropy(x: Tensor, label: Tensor) -> Tensor:
    flat = torch.nn.functional.cross_entropy(
        x.flatten(0, -2), label.long().flatten(), ignore_index=-1, reduction="none"
    )
    return flat.view(label.shape)


def frd_loss(logits_BSY: Tensor, label_BS: Tensor) -> RowLoss:
    """Cross-entropy, mean over the horizons."""
    return _differentiate(logits_BSY, lambda x: _cross_entropy(x, label_BS).mean(1), 1 / len(logits_BSY))


def outcome_loss(logits_BO: Tensor, label_B: Tensor) -> RowLoss:
    """Cross-entropy, mean over the labelled rows."""
    labelled = int((label_B != -1).sum())
    return _differentiate(logits_BO, lambda x: _cross_entropy(x, label_B), 1 / max(labelled, 1))
