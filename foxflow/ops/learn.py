"""What follows the gradients: norms, Adam, target copies, mean losses and the controllers. float32 alone.

Axes: W weights of all groups laid end to end, G groups, B batch rows, A actions. Group g is the weights
[offsets[g], offsets[g + 1]). What is written in place must be contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from foxflow.errors import must
from foxflow.ops import check

_C = torch.ops.foxflow

ISV = (
    "lr_mult",
    "ent_coef",
    "gamma",
    "per_beta",
    "reward_scale",
    "ema_entropy",
    "ema_abs_reward",
    "ema_hold",
    "ema_ratio",
    "n_done",
)
"""Names of the first internal state variables; the tensor holds 16, the rest 0."""

MAX_GROUPS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamState:
    """What one Adam step changes in place, all float32."""

    w_W: Tensor
    """Weights."""
    m_W: Tensor
    """Running mean of the clipped gradient; starts at 0."""
    v_W: Tensor
    """Running mean of its square; starts at 0."""
    beta_2: Tensor
    """0.9^t and 0.999^t as running products; starts at 1, 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a step showed the controllers."""

    pi_logits_BA: Tensor
    """float32, the policy's logits of the rollout."""
    reward_raw_B: Tensor
    """float32, ticks."""
    done_B: Tensor
    """uint8, 1 where a round trip ended."""
    hold_steps_B: Tensor
    """int32, steps that the position was held; read where done."""
    norm_delta: Tensor
    """float32 scalar, the norm of the trunk's change in this step."""
    norm_weights: Tensor
    """float32 scalar, the norm of the trunk's weights."""


def group_norm(x_W: Tensor, offsets: Sequence[int]) -> Tensor:
    """Take the Euclidean norm of each group.

    Args:
        x_W: float32.
        offsets: G + 1 bounds, from 0 to W, not decreasing; at most 64 groups.

    Returns:
        float32 [G]; 0 for an empty group.

    Raises:
        Mistake: x is not 1-D float32, or the offsets do not bound its groups.

    Bits: squares by fmaf, ascending inside chunks of 256 elements counted from the group's start; then chunk sums.
    """
    check.tensor(x_W, "x_W", "W", torch.float32)
    _bounds(offsets, x_W)
    result: Tensor = _C.group_norm(x_W.contiguous(), list(offsets))
    return result


def adam(state: AdamState, grad_W: Tensor, norm_G: Tensor, offsets: Sequence[int], isv: Tensor) -> None:
    """Take one Adam step on each group, its gradient clipped to norm 1.

    The learning rate is 3e-4 isv.lr_mult, the decays 0.9 and 0.999, eps 1e-8, no weight decay.

    Args:
        state: weights, moments and running products, changed in place.
        grad_W: float32.
        norm_G: float32, the norm of each group's gradient; scaled by 1 / norm where it is above 1.
        offsets: G + 1 bounds, as for `group_norm`.
        isv: float32 [16].

    Raises:
        Mistake: a tensor has another size, dtype or device, or what is changed is not contiguous.

    Bits: beta_2 moves first; then each weight by itself, every operation rounded apart, in the order in learn.h.
    Source: Kingma and Ba, Adam, 2015, algorithm 1.
    """
    w_W = state.w_W
    for x, name in ((w_W, "w_W"), (grad_W, "grad_W"), (state.m_W, "m_W"), (state.v_W, "v_W")):
        check.tensor(x, name, "W", torch.float32, like=w_W)
        check.size(x, name, 0, w_W.shape[0], "the weights")
    check.tensor(state.beta_2, "beta_2", "2", torch.float32, like=w_W)
    check.size(state.beta_2, "beta_2", 0, 2, "two decays")
    _bounds(offsets, w_W)
    check.tensor(norm_G, "norm_G", "G", torch.float32, like=w_W)
    check.size(norm_G, "norm_G", 0, len(offsets) - 1, "the groups")
    _isv(isv, w_W)
    for x, name in ((w_W, "w_W"), (state.m_W, "m_W"), (state.v_W, "v_W"), (state.beta_2, "beta_2")):
        _in_place(x, name)
    _C.adam(
        w_W,
        grad_W.contiguous(),
        state.m_W,
        state.v_W,
        state.beta_2,
        norm_G.contiguous(),
        list(offsets),
        isv.contiguous(),
    )


def polyak(target_W: Tensor, source_W: Tensor) -> None:
    """Move target weights 0.5 % of the way to their source: target = 0.995 target + 0.005 source, in place.

    Args:
        target_W: float32, changed in place.
        source_W: float32.

    Raises:
        Mistake: the sizes, dtypes or devices differ, or the target is not contiguous.

    Bits: each product and the sum are rounded apart.
    """
    check.tensor(target_W, "target_W", "W", torch.float32)
    check.tensor(source_W, "source_W", "W", torch.float32, like=target_W)
    check.size(source_W, "source_W", 0, target_W.shape[0], "target_W's weights")
    _in_place(target_W, "target_W")
    _C.polyak(target_W, source_W.contiguous())


def mean_loss(row_loss_B: Tensor, weight_B: Tensor | None = None, label_B: Tensor | None = None) -> Tensor:
    """Average the losses of rows.

    Args:
        row_loss_B: float32, at least one row.
        weight_B: float32 importance weights; none counts each row once.
        label_B: int32; where given, the sum is divided by the number of labels >= 0, at least 1, instead of by B.

    Returns:
        float32 scalar.

    Raises:
        Mistake: there are no rows, or a size, dtype or device differs.

    Bits: loss times weight is rounded, then added: ascending in chunks of 32 rows, then chunk sums ascending.
    """
    check.tensor(row_loss_B, "row_loss_B", "B", torch.float32)
    rows = row_loss_B.shape[0]
    if rows == 0:
        raise must("row_loss_B", "hold at least one row", "none")
    for x, name, dtype in ((weight_B, "weight_B", torch.float32), (label_B, "label_B", torch.int32)):
        if x is not None:
            check.tensor(x, name, "B", dtype, like=row_loss_B)
            check.size(x, name, 0, rows, "row_loss_B's rows")
    given = [x if x is None else x.contiguous() for x in (row_loss_B, weight_B, label_B)]
    result: Tensor = _C.mean_loss(*given)
    return result


def controllers(isv: Tensor, observed: Observed, step: Tensor, steps: int) -> None:
    """Move the internal state variables by what a step showed, in place.

    First the means (rate 0.05): entropy of the policy, |reward|, hold steps of the rows that are done, |change| /
    |weights| of the trunk; n_done counts on. Then ent_coef, per_beta, reward_scale, gamma (on steps with a done) and
    lr_mult from them. A mean of which nothing was seen stays: hold without a done, the ratio of a trunk of norm 0.

    Args:
        isv: float32 [16], in the order of `ISV`, changed in place.
        observed: what the step showed.
        step: int64 scalar, this step, counted from 0.
        steps: steps of the run.

    Raises:
        Mistake: a size, dtype or device differs, there are no rows, or on a CPU the step lies outside the run.

    Bits: one thread; sums over rows ascending in chunks of 32, then chunk sums.
    """
    _isv(isv, isv)
    _in_place(isv, "isv")
    o = observed
    check.tensor(o.pi_logits_BA, "pi_logits_BA", "BA", torch.float32, like=isv)
    rows = o.pi_logits_BA.shape[0]
    if o.pi_logits_BA.numel() == 0:
        raise must("pi_logits_BA", "hold at least one row and action", tuple(o.pi_logits_BA.shape))
    columns = (("reward_raw_B", torch.float32), ("done_B", torch.uint8), ("hold_steps_B", torch.int32))
    for name, dtype in columns:
        check.tensor(getattr(o, name), name, "B", dtype, like=isv)
        check.size(getattr(o, name), name, 0, rows, "pi_logits_BA's rows")
    for name in ("norm_delta", "norm_weights"):
        check.tensor(getattr(o, name), name, "", torch.float32, like=isv)
    check.clock(step, isv, steps)
    given = [getattr(o, name).contiguous() for name, _ in (("pi_logits_BA", None), *columns)]
    _C.controllers(isv, *given, o.norm_delta, o.norm_weights, step, steps)


def _bounds(offsets: Sequence[int], x_W: Tensor) -> None:
    ascending = all(a <= b for a, b in pairwise(offsets))
    if not 2 <= len(offsets) <= MAX_GROUPS + 1 or offsets[0] != 0 or offsets[-1] != x_W.shape[0] or not ascending:
        rule = f"rise from 0 to {x_W.shape[0]}, the weights, around 1 to {MAX_GROUPS} groups"
        raise must("offsets", rule, list(offsets[:5]))


def _isv(isv: Tensor, like: Tensor) -> None:
    check.tensor(isv, "isv", "I", torch.float32, like=like)
    check.size(isv, "isv", 0, 16, "internal state variables")


def _in_place(x: Tensor, name: str) -> None:
    if not x.is_contiguous():
        raise must(name, "be contiguous, since it is changed in place", f"strides {x.stride()}")


@torch.library.register_fake("foxflow::group_norm")
def _(x: Tensor, offsets: Sequence[int]) -> Tensor:
    return x.new_empty(len(offsets) - 1)


@torch.library.register_fake("foxflow::mean_loss")
def _(row_loss: Tensor, weight: Tensor | None, label: Tensor | None) -> Tensor:
    return row_loss.new_empty(())


@torch.library.register_fake("foxflow::adam")
@torch.library.register_fake("foxflow::polyak")
@torch.library.register_fake("foxflow::controllers")
def _(*_: object) -> None:
    return None
