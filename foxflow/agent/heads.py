"""Seven heads on one encoding: forward, targets, losses and gradients, each by its own rule.

iqn and dueling read the encoding as a constant: they write gradients of their own weights only. Priorities read q,
actions read pi, so neither race nor seed of the other heads reaches the world.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from foxflow.config import CHUNK, Shape
from foxflow.ops import dueling, iqn, losses, targets
from foxflow.ops.linalg import matmul, matmul_nt, matmul_rows, sum_rows

LINEAR = ("q", "pi", "v", "frd", "outcome")
"""Heads whose gradient goes on into the encoding, in the order in which it is summed."""

Tensors = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Sampled:
    """What the heads learn from: rows drawn from the replay ring, their weights and labels."""

    action: Tensor
    reward: Tensor
    done: Tensor
    log_pi_old: Tensor
    weight: Tensor
    frd_labels: Tensor
    outcome_labels: Tensor
    isv: Tensor


@dataclass(frozen=True, slots=True)
class Outputs:
    """One forward pass of all heads; `record` holds the buffers by name, the rest serves the backward pass."""

    record: Tensors
    pre: Tensor
    mixed: Tensor


def linear(w: Tensors, key: str, x: Tensor) -> Tensor:
    """x W + b of one linear layer."""
    return matmul(x, w[f"{key}_w"], w[f"{key}_b"])


def quantiles(w: Tensors, s: Shape, h_BH: Tensor, cos_BQE: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """IQN: the values [B, Q, A], the embedding before its relu and the mix with h, both [B, Q, H]."""
    pre = linear(w, "iqn.e", cos_BQE.view(-1, s.E)).view(-1, s.Q, s.H)
    mixed = iqn.iqn_mix_fwd(pre, h_BH)
    return linear(w, "iqn.o", mixed.view(-1, s.H)).view(-1, s.Q, s.A), pre, mixed


def composed(w: Tensors, h_BH: Tensor) -> Tensor:
    """Dueling: V + A - mean A, [B, A]."""
    return dueling.dueling_compose(linear(w, "dueling.v", h_BH), linear(w, "dueling.a", h_BH))


def forward(w: Tensors, s: Shape, h_BH: Tensor, cos_BQE: Tensor) -> Outputs:
    """Run every head on an encoding.

    Args:
        w: weights by key.
        s: sizes.
        h_BH: the encoding.
        cos_BQE: cosines of this call's quantile fractions.
    """
    q_values, pre, mixed = quantiles(w, s, h_BH, cos_BQE)
    record = {
        "q_logits": linear(w, "q", h_BH).view(-1, s.A, s.Z),
        "pi_logits": linear(w, "pi", h_BH),
        "v_pred": linear(w, "v", h_BH).view(-1),
        "dueling_q_composed": composed(w, h_BH),
        "iqn_q_values": q_values,
        "frd_logits": linear(w, "frd", h_BH).view(-1, 3, s.Y),
        "outcome_logits": linear(w, "outcome", h_BH),
    }
    return Outputs(record, pre, mixed)


def target(wt: Tensors, s: Shape, h_next_BH: Tensor, cos_BQE: Tensor, d: Sampled) -> Tensors:
    """What the heads are to predict, from the slowly following copies; buffers by name."""
    q_target, _, _ = quantiles(wt, s, h_next_BH, cos_BQE)
    rest = (d.reward, d.done, d.isv)
    return {
        "iqn_q_target": q_target,
        "q_target_dist": targets.c51_target(linear(wt, "q", h_next_BH).view(-1, s.A, s.Z), *rest),
        "v_target": targets.v_target(linear(wt, "v", h_next_BH), *rest),
        "iqn_target": targets.iqn_target(q_target, *rest),
        "dueling_target": targets.dueling_target(composed(wt, h_next_BH), *rest),
    }


def loss(out: Tensors, tau_BQ: Tensor, want: Tensors, d: Sampled) -> Tensors:
    """Row losses and gradients of every output: `advantage`, `row_loss_*` and `grad_logits_*` by name."""
    advantage = want["v_target"] - out["v_pred"]
    pairs = {
        "q": losses.c51_loss(out["q_logits"], want["q_target_dist"], d.action, d.weight),
        "pi": losses.pi_loss(out["pi_logits"], d.action, d.log_pi_old, advantage, d.isv),
        "v": losses.v_loss(out["v_pred"].view(-1, 1), want["v_target"]),
        "iqn": losses.iqn_loss(out["iqn_q_values"], tau_BQ, want["iqn_target"], d.action, d.weight),
        "dueling": losses.dueling_loss(out["dueling_q_composed"], want["dueling_target"], d.action, d.weight),
        "frd": losses.frd_loss(out["frd_logits"], d.frd_labels),
        "outcome": losses.outcome_loss(out["outcome_logits"], d.outcome_labels),
    }
    record = {"advantage": advantage}
    record |= {f"row_loss_{head}": row for head, (row, _) in pairs.items()}
    record |= {f"grad_logits_{head}": grad for head, (_, grad) in pairs.items()}
    record["grad_logits_v"] = record["grad_logits_v"].view(-1)
    return record


def backward(
    w: Tensors, s: Shape, h_BH: Tensor, grads: Tensors, f: Outputs, cos_BQE: Tensor
) -> tuple[Tensors, Tensors]:
    """Carry the gradients of the outputs back.

    Returns:
        (`grad_h_t_*` buffers, `grad_h_t_combined` last; gradients of the heads' weights by key, a sum a chunk).
    """
    record: Tensors = {}
    chunks: Tensors = {}
    for head in LINEAR:
        flat = grads[f"grad_logits_{head}"].view(h_BH.shape[0], -1)
        record[f"grad_h_t_{head}"] = matmul_nt(flat, w[f"{head}_w"])
        _weights(chunks, head, h_BH, flat, CHUNK)
    combined = record["grad_h_t_q"]
    for head in LINEAR[1:]:
        combined = combined + record[f"grad_h_t_{head}"]
    record["grad_h_t_combined"] = combined
    grad_v, grad_a = dueling.dueling_split(grads["grad_logits_dueling"])
    _weights(chunks, "dueling.v", h_BH, grad_v, CHUNK)
    _weights(chunks, "dueling.a", h_BH, grad_a, CHUNK)
    grad_q = grads["grad_logits_iqn"].view(-1, s.A)
    _weights(chunks, "iqn.o", f.mixed.view(-1, s.H), grad_q, CHUNK * s.Q)
    grad_mixed = matmul_nt(grad_q, w["iqn.o_w"]).view(-1, s.Q, s.H)
    grad_pre = iqn.iqn_mix_bwd(f.pre, h_BH, grad_mixed).view(-1, s.H)
    _weights(chunks, "iqn.e", cos_BQE.view(-1, s.E), grad_pre, CHUNK * s.Q)
    return record, chunks


def _weights(chunks: Tensors, key: str, x: Tensor, grad: Tensor, rows: int) -> None:
    chunks[f"{key}_w"], chunks[f"{key}_b"] = matmul_rows(x, grad, rows), sum_rows(grad, rows)
