"""Twins of foxflow/ops/encoder.py and foxflow/ops/recurrence.py, and the encoder they make; axes as there."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional


def vsn(x_BTF: Tensor, w_FF: Tensor, b_F: Tensor) -> tuple[Tensor, Tensor]:
    """The gate and F * gate * x in float64."""
    x = x_BTF.double()
    gate = torch.softmax(x @ w_FF.double() + b_F.double(), -1)
    return gate, x.shape[-1] * gate * x


def mamba(
    u_BTU: Tensor, dt_bias_M: Tensor, a_log_M: Tensor, d_M: Tensor, state_size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The states, what they give and that gated, in float64, by the chunk's closed form: no recurrence.

    S_t = sum over s <= t of exp(sum of log a over s+1..t) step_s B_s x_s^T.
    """
    u = u_BTU.double()
    batch, steps, width = u.shape
    heads = d_M.shape[0]
    hidden = (width - 2 * state_size - heads) // 2
    z, x, write, read, delta = u.split([hidden, hidden, state_size, state_size, heads], -1)  # type: ignore[no-untyped-call]
    x = x.reshape(batch, steps, heads, hidden // heads)
    step = functional.softplus(delta + dt_bias_M.double(), threshold=50.0)
    reach = torch.cumsum(-step * a_log_M.double().exp(), 1)
    between = reach[:, :, None] - reach[:, None]
    later = torch.ones(steps, steps, dtype=torch.bool, device=u.device).tril()[None, :, :, None]
    decay = torch.where(later, between, -torch.inf).exp()
    state = torch.einsum("btsm,bsm,bsn,bsmp->btmnp", decay, step, write, x)
    y = torch.einsum("btn,btmnp->btmp", read, state) + d_M.double()[:, None] * x
    y = y.reshape(batch, steps, hidden)
    return state, y, y * functional.silu(z)


def layer_norm(x_RH: Tensor, residual_RH: Tensor, gain_H: Tensor, bias_H: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Torch's layer norm of the sum in float64, its normalised rows and their 1 / std."""
    total = x_RH.double() + residual_RH.double()
    shape = total.shape[-1:]
    rstd = (total.var(-1, unbiased=False) + 1e-5).rsqrt()
    out = functional.layer_norm(total, shape, gain_H.double(), bias_H.double(), 1e-5)
    return out, functional.layer_norm(total, shape, eps=1e-5), rstd


def attention(e_BTH: Tensor, q_H: Tensor) -> tuple[Tensor, Tensor]:
    """The weights of the window's steps and their weighted sum in float64."""
    e = e_BTH.double()
    alpha = torch.softmax(e @ q_H.double() / math.sqrt(e.shape[-1]), 1)
    return alpha, torch.einsum("bt,bth->bh", alpha, e)


def cfc(
    drive_in_BH: Tensor, drive_rec_BH: Tensor, b_H: Tensor, h_prev_BH: Tensor, dt_B: Tensor, tau_H: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The candidate, the decay and the state in float64."""
    candidate = torch.tanh(drive_in_BH.double() + drive_rec_BH.double() + b_H.double())
    decay = torch.exp(-dt_B.double()[:, None] / tau_H.double())
    return candidate, decay, torch.lerp(candidate, h_prev_BH.double(), decay)


def encoder(weights: Mapping[str, Tensor], x_BTF: Tensor, h_prev_BH: Tensor, dt_B: Tensor, state_size: int) -> Tensor:
    """The state h_BH after a window, in float64.

    Args:
        weights: the 23 tensors of the trunk by name: vsn_w/b, in_w/b, m{a,b}_{u,dtb,alog,d,o}, ln_{a,b}_{gain,bias},
            attn_q, cfc_w_in/w_rec/b/tau.
        x_BTF: the windows.
        h_prev_BH: the carried state.
        dt_B: seconds since the row before.
        state_size: N of both mixers.
    """
    w = {name: value.double() for name, value in weights.items()}
    e = vsn(x_BTF, w["vsn_w"], w["vsn_b"])[1] @ w["in_w"] + w["in_b"]
    for k in "ab":
        bias, rate, skip = (w[f"m{k}_{part}"] for part in ("dtb", "alog", "d"))
        mixed = mamba(e @ w[f"m{k}_u"], bias, rate, skip, state_size)[2] @ w[f"m{k}_o"]
        e = layer_norm(e, mixed, w[f"ln_{k}_gain"], w[f"ln_{k}_bias"])[0]
    context = attention(e, w["attn_q"])[1]
    h = h_prev_BH.double()
    return cfc(context @ w["cfc_w_in"], h @ w["cfc_w_rec"], w["cfc_b"], h, dt_B, w["cfc_tau"])[2]
