"""Losses of the heads: what each row loses, and the gradient of the mean.

Axes: B batch rows, A actions, Z atoms, Q quantiles. Floats are float32, or all float64 for gradient checks.
Each function returns (row_loss_B, grad): row_loss_B before importance weights and before the division by B, and the
gradient of mean_b(weight_b row_loss_b) with the head output's shape. Gradients are these values, not autograd's.
actions are int32; one outside [0, A) makes its row NaN, since reading it here would wait for the device.
"""

from __future__ import annotations

import torch
from torch import Tensor, float32, int32

from foxflow.ops import check
from foxflow.ops.targets import ISV_SIZE

_C = torch.ops.foxflow
RowLoss = tuple[Tensor, Tensor]


def c51_loss(logits_BAZ: Tensor, target_BZ: Tensor, action_B: Tensor, weight_B: Tensor) -> RowLoss:
    """Cross-entropy of the taken action's distribution against the projected target m.

    Args:
        logits_BAZ: q_logits.
        target_BZ: from `targets.c51_target`.
        action_B: int32, the action taken.
        weight_B: importance weights.

    Returns:
        row_loss_B: the bare cross-entropy, from which priorities are made.
        grad_BAZ: w (p - m) / B at the action, +0 elsewhere.

    Raises:
        Mistake: a dtype, rank, size or device is wrong.

    Source: Bellemare, Dabney and Munos, A Distributional Perspective on Reinforcement Learning, 2017.
    """
    check.tensor(logits_BAZ, "logits_BAZ", "BAZ")
    check.tensor(target_BZ, "target_BZ", "BZ", like=logits_BAZ)
    check.size(target_BZ, "target_BZ", 1, logits_BAZ.shape[2], "atoms")
    _rows(logits_BAZ, target_BZ=target_BZ, weight_B=weight_B)
    _labels(logits_BAZ, action_B, "action_B")
    result: RowLoss = _C.c51_loss(*_dense(logits_BAZ, target_BZ, action_B, weight_B))
    return result


def pi_loss(logits_BA: Tensor, action_B: Tensor, log_pi_old_B: Tensor, advantage_B: Tensor, isv: Tensor) -> RowLoss:
    """Clipped surrogate and entropy: -min(r adv, clip(r, 0.8, 1.2) adv) - ent H, r = pi / pi_old.

    Args:
        logits_BA: pi_logits.
        action_B: int32, the action taken.
        log_pi_old_B: its log-probability when it was taken; a constant.
        advantage_B: v_target - v; a constant.
        isv: float32 [16]; ent is element 1.

    Returns:
        row_loss_B: as above.
        grad_BA: [ent pi (log pi + H) - live adv r (1_a - pi)] / B, live = [r adv <= clip(r) adv].

    Raises:
        Mistake: a dtype, rank, size or device is wrong.

    Source: Schulman and others, Proximal Policy Optimization Algorithms, 2017, eq. 7.
    """
    check.tensor(logits_BA, "logits_BA", "BA")
    _rows(logits_BA, log_pi_old_B=log_pi_old_B, advantage_B=advantage_B)
    _labels(logits_BA, action_B, "action_B")
    check.tensor(isv, "isv", "I", float32, like=logits_BA)
    check.size(isv, "isv", 0, ISV_SIZE, "state variables")
    result: RowLoss = _C.pi_loss(*_dense(logits_BA, action_B, log_pi_old_B, advantage_B, isv))
    return result


def v_loss(v_B1: Tensor, target_B: Tensor) -> RowLoss:
    """Half the squared error: row e^2 / 2, gradient e / B, e = v - target.

    Raises:
        Mistake: a dtype, rank, size or device is wrong.
    """
    check.tensor(v_B1, "v_B1", "B1")
    check.size(v_B1, "v_B1", 1, 1, "one value a row")
    _rows(v_B1, target_B=target_B)
    result: RowLoss = _C.v_loss(*_dense(v_B1, target_B))
    return result


def iqn_loss(q_BQA: Tensor, tau_BQ: Tensor, target_BQ: Tensor, action_B: Tensor, weight_B: Tensor) -> RowLoss:
    """Quantile Huber loss: sum_i mean_j |tau_i - [u < 0]| huber_1(u), u = y_j - q_i[a].

    Args:
        q_BQA: iqn_q_values.
        tau_BQ: the quantiles they were drawn at.
        target_BQ: y, from `targets.iqn_target`.
        action_B: int32, the action taken.
        weight_B: importance weights.

    Returns:
        row_loss_B: as above.
        grad_BQA: -w mean_j |tau_i - [u < 0]| clip(u, -1, 1) / B at the action, +0 elsewhere.

    Raises:
        Mistake: a dtype, rank, size or device is wrong.

    Bits: each mean an fma chain over j divided by Q, the sum over i ascending.
    Source: Dabney and others, Implicit Quantile Networks, 2018, eq. 3.
    """
    check.tensor(q_BQA, "q_BQA", "BQA")
    for name, x in (("tau_BQ", tau_BQ), ("target_BQ", target_BQ)):
        check.tensor(x, name, "BQ", like=q_BQA)
        check.size(x, name, 1, q_BQA.shape[1], "quantiles")
    _rows(q_BQA, tau_BQ=tau_BQ, target_BQ=target_BQ, weight_B=weight_B)
    _labels(q_BQA, action_B, "action_B")
    result: RowLoss = _C.iqn_loss(*_dense(q_BQA, tau_BQ, target_BQ, action_B, weight_B))
    return result


def dueling_loss(q_BA: Tensor, target_B: Tensor, action_B: Tensor, weight_B: Tensor) -> RowLoss:
    """Huber loss of the taken action's value: row huber_1(e), gradient clip(e, -1, 1) w / B at the action, else +0.

    Raises:
        Mistake: a dtype, rank, size or device is wrong.
    """
    check.tensor(q_BA, "q_BA", "BA")
    _rows(q_BA, target_B=target_B, weight_B=weight_B)
    _labels(q_BA, action_B, "action_B")
    result: RowLoss = _C.dueling_loss(*_dense(q_BA, target_B, action_B, weight_B))
    return result


def frd_loss(logits_BSY: Tensor, label_BS: Tensor) -> RowLoss:
    """Mean cross-entropy over the horizons; a label of -1 counts as 0 in the mean and its logits get +0.

    Args:
        logits_BSY: frd_logits, S horizons of Y bins.
        label_BS: int32, the bin or -1; another value outside [0, Y) makes its row NaN.

    Returns:
        row_loss_B: divided by S whatever was skipped.
        grad_BSY: (p - 1_label) / (S B), or +0.

    Raises:
        Mistake: a dtype, rank, size or device is wrong.
    """
    check.tensor(logits_BSY, "logits_BSY", "BSY")
    _labels(logits_BSY, label_BS, "label_BS")
    check.size(label_BS, "label_BS", 1, logits_BSY.shape[1], "horizons")
    result: RowLoss = _C.frd_loss(*_dense(logits_BSY, label_BS))
    return result


def outcome_loss(logits_BO: Tensor, label_B: Tensor) -> RowLoss:
    """Cross-entropy of the labelled rows.

    Args:
        logits_BO: outcome_logits, O classes.
        label_B: int32, the class or -1; another value outside [0, O) makes its row NaN.

    Returns:
        row_loss_B: +0 where the label is -1.
        grad_BO: (p - 1_label) / n, n the labelled rows, at least 1; +0 where the label is -1 (0 times a weight can
            be -0, which would itself differ from run to run).

    Raises:
        Mistake: a dtype, rank, size or device is wrong.
    """
    check.tensor(logits_BO, "logits_BO", "BO")
    _labels(logits_BO, label_B, "label_B")
    result: RowLoss = _C.outcome_loss(*_dense(logits_BO, label_B))
    return result


def _rows(x: Tensor, **by_row: Tensor) -> None:
    for name, other in by_row.items():
        check.tensor(other, name, name.rsplit("_", 1)[1], like=x)
        check.size(other, name, 0, x.shape[0], "batch rows")


def _labels(x: Tensor, label: Tensor, name: str) -> None:
    check.tensor(label, name, name.rsplit("_", 1)[1], int32, like=x)
    check.size(label, name, 0, x.shape[0], "batch rows")


def _dense(*tensors: Tensor) -> list[Tensor]:
    return [x.contiguous() for x in tensors]


def _row_loss_fake(x: Tensor, *others: Tensor) -> RowLoss:
    return x.new_empty(x.shape[0]), torch.empty_like(x)


for _op in ("c51", "pi", "v", "iqn", "dueling", "frd", "outcome"):
    torch.library.register_fake(f"foxflow::{_op}_loss", _row_loss_fake)
