"""Seven heads on one encoding: forward, targets, losses and gradients, each by its own rule.

iqn and dueling read the encoding as a constant: they write gradients of their own weights only. Priorities read q,
actions read pi, so neither race nor seed of the other heads reaches the world.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from foxflow.agent.seams import Specimens, row_products, sums
from foxflow.agent.stage import Named, Stage
from foxflow.config import CHUNK, Shape
from foxflow.ops import dueling, iqn, losses, targets
from foxflow.ops.linalg import matmul, matmul_nt

LINEAR = ("q", "pi", "v", "frd", "outcome")
"""Heads whose gradient goes on into the encoding, in the order in which it is summed."""


def linear(w: Named, key: str, x: Tensor) -> Tensor:
    """x W + b of one linear layer."""
    return matmul(x, w[f"{key}_w"], w[f"{key}_b"])


def _composed(w: Named, h_BH: Tensor) -> Tensor:
    return dueling.dueling_compose(linear(w, "dueling.v", h_BH), linear(w, "dueling.a", h_BH))


def _mixed(w: Named, s: Shape, h_BH: Tensor, cos_BQE: Tensor) -> tuple[Tensor, Tensor]:
    """IQN's embedding before its relu, and its mix with h, both [B, Q, H]."""
    pre = linear(w, "iqn.e", cos_BQE.view(-1, s.E)).view(-1, s.Q, s.H)
    return pre, iqn.iqn_mix_fwd(pre, h_BH)


def _quantiles(w: Named, s: Shape, mixed_BQH: Tensor) -> Tensor:
    return linear(w, "iqn.o", mixed_BQH.view(-1, s.H)).view(-1, s.Q, s.A)


def _one(name: str, make: Callable[[Named, Shape, Named], Tensor], *, aside: bool = False) -> Stage:
    return Stage((name,), lambda w, s, x: (make(w, s, x),), aside)


OUTPUTS = (
    _one("q_logits", lambda w, s, x: linear(w, "q", x["sampled_h_t"]).view(-1, s.A, s.Z)),
    _one("pi_logits", lambda w, s, x: linear(w, "pi", x["sampled_h_t"])),
    _one("v_pred", lambda w, s, x: linear(w, "v", x["sampled_h_t"]).view(-1)),
    _one("dueling_q_composed", lambda w, s, x: _composed(w, x["sampled_h_t"])),
    Stage(("iqn_pre", "iqn_mixed"), lambda w, s, x: _mixed(w, s, x["sampled_h_t"], x["iqn_cos"])),
    _one("iqn_q_values", lambda w, s, x: _quantiles(w, s, x["iqn_mixed"])),
    _one("frd_logits", lambda w, s, x: linear(w, "frd", x["sampled_h_t"]).view(-1, 3, s.Y)),
    _one("outcome_logits", lambda w, s, x: linear(w, "outcome", x["sampled_h_t"])),
)
"""Every head on the encoding and this call's cosines."""


def _next(x: Named) -> tuple[Tensor, Tensor, Tensor]:
    return x["sampled_rewards"], x["sampled_dones"], x["isv"]


def _q_target(w: Named, s: Shape, x: Named) -> Tensor:
    return targets.c51_target(linear(w, "q", x["sampled_h_tp1"]).view(-1, s.A, s.Z), *_next(x))


def _iqn_values(w: Named, s: Shape, x: Named) -> Tensor:
    return _quantiles(w, s, _mixed(w, s, x["sampled_h_tp1"], x["iqn_cos_target"])[1])


TARGETS = (
    _one("iqn_q_target", _iqn_values),
    _one("q_target_dist", _q_target),
    _one("v_target", lambda w, s, x: targets.v_target(linear(w, "v", x["sampled_h_tp1"]), *_next(x))),
    _one("iqn_target", lambda w, s, x: targets.iqn_target(x["iqn_q_target"], *_next(x))),
    _one("dueling_target", lambda w, s, x: targets.dueling_target(_composed(w, x["sampled_h_tp1"]), *_next(x))),
)
"""What the heads are to predict; their weights are the slowly following copies."""


def _pi_loss(_w: Named, _s: Shape, x: Named) -> tuple[Tensor, ...]:
    drawn = (x["sampled_actions"], x["sampled_log_pi_old"])
    return losses.pi_loss(x["pi_logits"], *drawn, x["advantage"], x["isv"])


def _v_loss(_w: Named, _s: Shape, x: Named) -> tuple[Tensor, ...]:
    row, grad = losses.v_loss(x["v_pred"].view(-1, 1), x["v_target"])
    return row, grad.view(-1)


def _drawn(x: Named) -> tuple[Tensor, Tensor]:
    return x["sampled_actions"], x["per_is_weight"]


def _iqn_loss(_w: Named, _s: Shape, x: Named) -> tuple[Tensor, ...]:
    return losses.iqn_loss(x["iqn_q_values"], x["iqn_tau"], x["iqn_target"], *_drawn(x))


def _loss(head: str, run: Callable[[Named, Shape, Named], tuple[Tensor, ...]]) -> Stage:
    return Stage((f"row_loss_{head}", f"grad_logits_{head}"), run)


LOSSES = (
    _one("advantage", lambda w, s, x: x["v_target"] - x["v_pred"]),
    _loss("q", lambda w, s, x: losses.c51_loss(x["q_logits"], x["q_target_dist"], *_drawn(x))),
    _loss("pi", _pi_loss),
    _loss("v", _v_loss),
    _loss("iqn", _iqn_loss),
    _loss("dueling", lambda w, s, x: losses.dueling_loss(x["dueling_q_composed"], x["dueling_target"], *_drawn(x))),
    _loss("frd", lambda w, s, x: losses.frd_loss(x["frd_logits"], x["frd_labels"])),
    _loss("outcome", lambda w, s, x: losses.outcome_loss(x["outcome_logits"], x["outcome_labels"])),
)
"""Row losses and the gradients of every output."""


def _flat(x: Named, head: str) -> Tensor:
    grad = x[f"grad_logits_{head}"]
    return grad.view(grad.shape[0], -1)


def _into_encoding(head: str) -> Stage:
    return _one(f"grad_h_t_{head}", lambda w, s, x: matmul_nt(_flat(x, head), w[f"{head}_w"]))


def _combined(_w: Named, _s: Shape, x: Named) -> Tensor:
    total = x["grad_h_t_q"]
    for head in LINEAR[1:]:
        total = total + x[f"grad_h_t_{head}"]
    return total


def _dueling_split(_w: Named, _s: Shape, x: Named) -> tuple[Tensor, ...]:
    return dueling.dueling_split(x["grad_logits_dueling"])


def _iqn_pre(w: Named, s: Shape, x: Named) -> Tensor:
    grad_mixed = matmul_nt(x["grad_logits_iqn"].view(-1, s.A), w["iqn.o_w"]).view(-1, s.Q, s.H)
    return iqn.iqn_mix_bwd(x["iqn_pre"], x["sampled_h_t"], grad_mixed)


Layer = Callable[[Shape, Named], tuple[Tensor, Tensor, int]]
"""What a linear layer's gradients are summed from: its input, the gradient of its output, rows a chunk."""


def _on_encoding(head: str) -> Layer:
    return lambda s, x: (x["sampled_h_t"], _flat(x, head), CHUNK)


LAYERS: dict[str, Layer] = {
    **{head: _on_encoding(head) for head in LINEAR},
    "dueling.v": lambda s, x: (x["sampled_h_t"], x["dueling_grad_v"], CHUNK),
    "dueling.a": lambda s, x: (x["sampled_h_t"], x["dueling_grad_a"], CHUNK),
    "iqn.o": lambda s, x: (x["iqn_mixed"].view(-1, s.H), x["grad_logits_iqn"].view(-1, s.A), CHUNK * s.Q),
    "iqn.e": lambda s, x: (x["iqn_cos"].view(-1, s.E), x["iqn_grad_pre"].view(-1, s.H), CHUNK * s.Q),
}


def _sums(key: str, layer: Layer, specimens: Specimens) -> Stage:
    def run(_w: Named, s: Shape, x: Named) -> tuple[Tensor, ...]:
        entry, grad, rows = layer(s, x)
        return row_products(entry, grad, rows, specimens), sums(grad, rows, specimens)

    return Stage((f"{key}_w", f"{key}_b"), run, aside=True)


def gradients(specimens: Specimens) -> tuple[Stage, ...]:
    """Gradients of the encoding, by buffer name, and of the heads' weights by key, a sum a chunk."""
    return (
        *map(_into_encoding, LINEAR),
        _one("grad_h_t_combined", _combined),
        Stage(("dueling_grad_v", "dueling_grad_a"), _dueling_split, aside=True),
        _one("iqn_grad_pre", _iqn_pre, aside=True),
        *(_sums(key, layer, specimens) for key, layer in LAYERS.items()),
    )
