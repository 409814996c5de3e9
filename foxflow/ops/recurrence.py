"""The encoder's recurrences: the Mamba-2 mixer along the window and the closed-form cell from step to step.

Axes: B batch rows, T window, M heads, N state, P head size, H = M P hidden, U = 2H + 2N + M columns of the projection
u = [z H | x M,P | B N | C N | delta M]. Tensors are float32, or float64 for gradient checks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from foxflow.errors import must
from foxflow.ops import check, linalg

_C = torch.ops.foxflow


def mamba_fwd(
    u_BTU: Tensor, dt_bias_M: Tensor, a_log_M: Tensor, d_M: Tensor, state_size: int, every: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """Run each head's state over the window and gate what it reads.

    step = softplus(delta + dt_bias); S_t = exp(-step e^a_log) S_{t-1} + step B x^T, from S = 0;
    y = C^T S_t + d x; gated = y silu(z).

    Args:
        u_BTU: the projected input, laid out as this file's head says.
        dt_bias_M: added to delta; M is the number of heads.
        a_log_M: logarithm of each head's rate of decay.
        d_M: each head's way past the state.
        state_size: N.
        every: the state is kept after every so many steps, K = T / every of them; T keeps the last one alone.

    Returns:
        state_BKMNP, y_BTH and gated_BTH; gradients flow through gated alone.

    Raises:
        Mistake: a tensor's rank, size, dtype or device does not fit, U is not 2H + 2N + M, or T no multiple of every.

    Bits: a fused chain over n ascending reads the state of each column p; no thread count or device shows.
    Source: Dao and Gu, Transformers are SSMs, 2024, eq. 16, without its convolution and its norm on the gate.
    """
    check.tensor(u_BTU, "u_BTU", "BTU")
    _per_head(u_BTU, dt_bias_M, a_log_M, d_M)
    _layout(u_BTU, dt_bias_M.shape[0], state_size)
    if every < 1 or u_BTU.shape[1] % every:
        raise must("every", f"divide the {u_BTU.shape[1]} steps of u_BTU", every)
    inputs = (u_BTU, dt_bias_M, a_log_M, d_M)
    state, y, gated = _C.mamba_fwd(*(x.contiguous() for x in inputs), state_size, every)
    return state, y, gated


def mamba_bwd(
    u_BTU: Tensor,
    state_BKMNP: Tensor,
    y_BTH: Tensor,
    dt_bias_M: Tensor,
    a_log_M: Tensor,
    d_M: Tensor,
    grad_gated_BTH: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Give the gradients of `mamba_fwd`'s u and, a row for each batch row, of dt_bias, a_log and d.

    Args:
        state_BKMNP: `mamba_fwd`'s; the states between those that were kept are made anew.
        y_BTH: `mamba_fwd`'s.
        grad_gated_BTH: the gradient of its gated.

    Returns:
        grad_u_BTU, grad_dt_bias_BM, grad_a_log_BM and grad_d_BM.

    Raises:
        Mistake: a tensor's rank, size, dtype or device does not fit, or U is not 2H + 2N + M.

    Bits: from the last step down; sums over heads ascend for each column p, then columns ascend.
    """
    check.tensor(u_BTU, "u_BTU", "BTU")
    _per_head(u_BTU, dt_bias_M, a_log_M, d_M)
    check.tensor(state_BKMNP, "state_BKMNP", "BKMNP", like=u_BTU)
    rows, heads, (kept, state) = u_BTU.shape[:2], dt_bias_M.shape[0], (state_BKMNP.shape[i] for i in (1, 3))
    hidden = _layout(u_BTU, heads, state)
    check.shaped(state_BKMNP, "state_BKMNP", "BKMNP", (rows[0], kept, heads, state, hidden // heads), u_BTU)
    if kept < 1 or rows[1] % kept:
        raise must("state_BKMNP", f"have a divisor of {rows[1]} on axis 1", kept)
    check.shaped(y_BTH, "y_BTH", "BTH", (*rows, hidden), u_BTU)
    check.shaped(grad_gated_BTH, "grad_gated_BTH", "BTH", (*rows, hidden), u_BTU)
    inputs = (u_BTU, state_BKMNP, y_BTH, dt_bias_M, a_log_M, d_M, grad_gated_BTH)
    grad_u, grad_dt_bias, grad_a_log, grad_d = _C.mamba_bwd(*(x.contiguous() for x in inputs))
    return grad_u, grad_dt_bias, grad_a_log, grad_d


def cfc_fwd(
    drive_in_BH: Tensor, drive_rec_BH: Tensor, b_H: Tensor, h_prev_BH: Tensor, dt_B: Tensor, tau_H: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Relax the state towards a candidate: h = candidate + (h_prev - candidate) exp(-dt / tau).

    Args:
        drive_in_BH: the context times w_in; candidate = tanh(drive_in + drive_rec + b).
        drive_rec_BH: h_prev times w_rec.
        h_prev_BH: the state before; no gradient flows into it.
        dt_B: seconds since then, positive; no gradient.
        tau_H: seconds, positive.

    Returns:
        candidate_BH, decay_BH (no gradient flows through these two) and h_BH.

    Raises:
        Mistake: a tensor's rank, size, dtype or device does not fit.

    Source: Hasani et al., Closed-form continuous-time neural networks, 2022; here the leaky unit's own solution.
    """
    check.tensor(drive_in_BH, "drive_in_BH", "BH")
    for name, x in (("drive_rec_BH", drive_rec_BH), ("h_prev_BH", h_prev_BH)):
        check.shaped(x, name, "BH", drive_in_BH.shape, drive_in_BH)
    check.shaped(b_H, "b_H", "H", drive_in_BH.shape[1:], drive_in_BH)
    check.shaped(dt_B, "dt_B", "B", drive_in_BH.shape[:1], drive_in_BH)
    check.shaped(tau_H, "tau_H", "H", drive_in_BH.shape[1:], drive_in_BH)
    inputs = (drive_in_BH, drive_rec_BH, b_H, h_prev_BH, dt_B, tau_H)
    candidate, decay, h = _C.cfc_fwd(*(x.contiguous() for x in inputs))
    return candidate, decay, h


def cfc_bwd(
    candidate_BH: Tensor, decay_BH: Tensor, h_prev_BH: Tensor, dt_B: Tensor, tau_H: Tensor, grad_h_BH: Tensor
) -> tuple[Tensor, Tensor]:
    """Give the gradient of `cfc_fwd`'s drive (and so of b, w_in and w_rec) and of tau, a row for each batch row.

    Raises:
        Mistake: a tensor's rank, size, dtype or device does not fit.
    """
    check.tensor(candidate_BH, "candidate_BH", "BH")
    for name, x in (("decay_BH", decay_BH), ("h_prev_BH", h_prev_BH), ("grad_h_BH", grad_h_BH)):
        check.shaped(x, name, "BH", candidate_BH.shape, candidate_BH)
    check.shaped(dt_B, "dt_B", "B", candidate_BH.shape[:1], candidate_BH)
    check.shaped(tau_H, "tau_H", "H", candidate_BH.shape[1:], candidate_BH)
    inputs = (candidate_BH, decay_BH, h_prev_BH, dt_B, tau_H, grad_h_BH)
    grad_drive, grad_tau = _C.cfc_bwd(*(x.contiguous() for x in inputs))
    return grad_drive, grad_tau


def _per_head(u: Tensor, dt_bias: Tensor, a_log: Tensor, d: Tensor) -> None:
    for name, x in (("dt_bias_M", dt_bias), ("a_log_M", a_log), ("d_M", d)):
        check.tensor(x, name, "M", like=u)
        check.size(x, name, 0, dt_bias.shape[0], "a value for each head")


def _layout(u: Tensor, heads: int, state: int) -> int:
    rest = u.shape[2] - 2 * state - heads
    if heads < 1 or state < 1 or rest < 1 or rest % (2 * heads):
        raise must("u_BTU", f"have 2 H + {2 * state} + {heads} columns, H a multiple of {heads}", u.shape[2])
    return rest // 2


@torch.library.register_fake("foxflow::mamba_fwd")
def _(
    u: Tensor, dt_bias: Tensor, a_log: Tensor, d: Tensor, state_size: int, every: int
) -> tuple[Tensor, Tensor, Tensor]:
    batch, steps, width = u.shape
    heads = dt_bias.shape[0]
    hidden = (width - 2 * state_size - heads) // 2
    state = u.new_empty(batch, steps // every, heads, state_size, hidden // heads)
    return state, u.new_empty(batch, steps, hidden), u.new_empty(batch, steps, hidden)


@torch.library.register_fake("foxflow::mamba_bwd")
def _(u, state, y, dt_bias, a_log, d, grad_gated):  # type: ignore[no-untyped-def]
    rows = (u.shape[0], dt_bias.shape[0])
    return u.new_empty(u.shape), u.new_empty(rows), u.new_empty(rows), u.new_empty(rows)


@torch.library.register_fake("foxflow::cfc_fwd")
def _(drive_in, drive_rec, b, h_prev, dt, tau):  # type: ignore[no-untyped-def]
    return b.new_empty(drive_in.shape), b.new_empty(drive_in.shape), b.new_empty(drive_in.shape)


@torch.library.register_fake("foxflow::cfc_bwd")
def _(candidate, decay, h_prev, dt, tau, grad_h):  # type: ignore[no-untyped-def]
    return tau.new_empty(candidate.shape), tau.new_empty(candidate.shape)


def _mamba_setup(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    u, dt_bias, a_log, d, *_ = inputs
    state, y, _ = output
    ctx.mark_non_differentiable(state, y)
    ctx.save_for_backward(u, state, y, dt_bias, a_log, d)


def _mamba_backward(ctx, _state, _y, grad_gated):  # type: ignore[no-untyped-def]
    u, state, y, dt_bias, a_log, d = ctx.saved_tensors
    grad_u, *rows = mamba_bwd(u, state, y, dt_bias, a_log, d, grad_gated)
    return grad_u, *(_summed(x) for x in rows), None, None


def _cfc_setup(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    candidate, decay, _ = output
    ctx.mark_non_differentiable(candidate, decay)
    ctx.save_for_backward(candidate, decay, *inputs[3:])


def _cfc_backward(ctx, _candidate, _decay, grad_h):  # type: ignore[no-untyped-def]
    candidate, decay, h_prev, dt, tau = ctx.saved_tensors
    grad_drive, grad_tau = cfc_bwd(candidate, decay, h_prev, dt, tau, grad_h)
    return grad_drive, grad_drive, _summed(grad_drive), None, None, _summed(grad_tau)


def _summed(rows_BN: Tensor) -> Tensor:
    return linalg.sum_rows(rows_BN, max(rows_BN.shape[0], 1)).sum(0)


torch.library.register_autograd("foxflow::mamba_fwd", _mamba_backward, setup_context=_mamba_setup)
torch.library.register_autograd("foxflow::cfc_fwd", _cfc_backward, setup_context=_cfc_setup)
