"""The encoder's rows: variable selection, layer normalisation and attention pooling.

Axes: B batch rows, T window, F features, H hidden, R rows of any kind. Tensors are float32, or float64 for gradient
checks; every argument has the first one's dtype and device. Results are contiguous. Every sum is ascending from +0
in one adder, softmax is maximum, exp of the difference, sum, division: no thread count or device shows in the bits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from foxflow.ops import check, linalg

_C = torch.ops.foxflow


def vsn_fwd(x_BTF: Tensor, w_FF: Tensor, b_F: Tensor) -> tuple[Tensor, Tensor]:
    """Weigh the features: gate = softmax(x w + b), out = F * gate * x, so that a flat gate is the identity.

    Returns:
        gate_BTF (no gradient flows through it) and out_BTF.

    Raises:
        Mistake: a tensor's rank, size, dtype or device does not fit.

    Bits: the logits are `linalg.matmul`'s.
    Source: one linear gate after Lim et al., Temporal Fusion Transformers, 2021, eq. 6-8.
    """
    check.tensor(x_BTF, "x_BTF", "BTF")
    features = x_BTF.shape[2]
    check.shaped(w_FF, "w_FF", "FF", (features, features), x_BTF)
    check.shaped(b_F, "b_F", "F", (features,), x_BTF)
    gate, out = _C.vsn_fwd(x_BTF.contiguous(), w_FF.contiguous(), b_F.contiguous())
    return gate, out


def vsn_bwd(x_BTF: Tensor, gate_BTF: Tensor, grad_out_BTF: Tensor) -> Tensor:
    """Give the gradient of `vsn_fwd`'s logits from that of its out; w's and b's are row sums of it.

    Raises:
        Mistake: a tensor's rank, size, dtype or device does not fit.
    """
    check.tensor(x_BTF, "x_BTF", "BTF")
    check.shaped(gate_BTF, "gate_BTF", "BTF", x_BTF.shape, x_BTF)
    check.shaped(grad_out_BTF, "grad_out_BTF", "BTF", x_BTF.shape, x_BTF)
    grad_logits: Tensor = _C.vsn_bwd(x_BTF.contiguous(), gate_BTF.contiguous(), grad_out_BTF.contiguous())
    return grad_logits


def layer_norm_fwd(x_RH: Tensor, residual_RH: Tensor, gain_H: Tensor, bias_H: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise each row of x + residual to mean 0 and variance 1 (eps 1e-5), then scale and shift.

    Returns:
        out_RH, norm_RH (before gain and bias) and rstd_R; no gradient flows through the last two.

    Raises:
        Mistake: a tensor's rank, size, dtype or device does not fit.

    Source: Ba, Kiros, Hinton, Layer Normalization, 2016.
    """
    check.tensor(x_RH, "x_RH", "RH")
    check.shaped(residual_RH, "residual_RH", "RH", x_RH.shape, x_RH)
    check.shaped(gain_H, "gain_H", "H", x_RH.shape[1:], x_RH)
    check.shaped(bias_H, "bias_H", "H", x_RH.shape[1:], x_RH)
    inputs = (x_RH, residual_RH, gain_H, bias_H)
    out, norm, rstd = _C.layer_norm_fwd(*(x.contiguous() for x in inputs))
    return out, norm, rstd


def layer_norm_bwd(norm_RH: Tensor, rstd_R: Tensor, gain_H: Tensor, grad_out_RH: Tensor) -> tuple[Tensor, Tensor]:
    """Give the gradient of `layer_norm_fwd`'s x, which is its residual's too, and a row of gain's gradient per row.

    The rows of bias' gradient are grad_out itself.

    Raises:
        Mistake: a tensor's rank, size, dtype or device does not fit.
    """
    check.tensor(norm_RH, "norm_RH", "RH")
    check.shaped(rstd_R, "rstd_R", "R", norm_RH.shape[:1], norm_RH)
    check.shaped(gain_H, "gain_H", "H", norm_RH.shape[1:], norm_RH)
    check.shaped(grad_out_RH, "grad_out_RH", "RH", norm_RH.shape, norm_RH)
    inputs = (norm_RH, rstd_R, gain_H, grad_out_RH)
    grad_x, grad_gain = _C.layer_norm_bwd(*(x.contiguous() for x in inputs))
    return grad_x, grad_gain


def attention_fwd(e_BTH: Tensor, q_H: Tensor) -> tuple[Tensor, Tensor]:
    """Pool the window by one query: alpha = softmax over t of (q e_t) / sqrt(H), context = sum over t of alpha_t e_t.

    Returns:
        alpha_BT (no gradient flows through it) and context_BH.

    Raises:
        Mistake: a tensor's rank, size, dtype or device does not fit.
    """
    check.tensor(e_BTH, "e_BTH", "BTH")
    check.shaped(q_H, "q_H", "H", e_BTH.shape[2:], e_BTH)
    alpha, context = _C.attention_fwd(e_BTH.contiguous(), q_H.contiguous())
    return alpha, context


def attention_bwd(e_BTH: Tensor, q_H: Tensor, alpha_BT: Tensor, grad_context_BH: Tensor) -> tuple[Tensor, Tensor]:
    """Give the gradient of `attention_fwd`'s e and, a row for each batch row, of its q.

    Raises:
        Mistake: a tensor's rank, size, dtype or device does not fit.
    """
    check.tensor(e_BTH, "e_BTH", "BTH")
    batch, steps, hidden = e_BTH.shape
    check.shaped(q_H, "q_H", "H", (hidden,), e_BTH)
    check.shaped(alpha_BT, "alpha_BT", "BT", (batch, steps), e_BTH)
    check.shaped(grad_context_BH, "grad_context_BH", "BH", (batch, hidden), e_BTH)
    inputs = (e_BTH, q_H, alpha_BT, grad_context_BH)
    grad_e, grad_q = _C.attention_bwd(*(x.contiguous() for x in inputs))
    return grad_e, grad_q


@torch.library.register_fake("foxflow::vsn_fwd")
def _(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape)


@torch.library.register_fake("foxflow::vsn_bwd")
def _(x: Tensor, gate: Tensor, grad_out: Tensor) -> Tensor:
    return x.new_empty(x.shape)


@torch.library.register_fake("foxflow::layer_norm_fwd")
def _(x: Tensor, residual: Tensor, gain: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape), x.new_empty(x.shape[0])


@torch.library.register_fake("foxflow::layer_norm_bwd")
def _(norm: Tensor, rstd: Tensor, gain: Tensor, grad_out: Tensor) -> tuple[Tensor, Tensor]:
    return norm.new_empty(norm.shape), norm.new_empty(norm.shape)


@torch.library.register_fake("foxflow::attention_fwd")
def _(e: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    return e.new_empty(e.shape[:2]), e.new_empty(e.shape[0], e.shape[2])


@torch.library.register_fake("foxflow::attention_bwd")
def _(e: Tensor, q: Tensor, alpha: Tensor, grad_context: Tensor) -> tuple[Tensor, Tensor]:
    return e.new_empty(e.shape), e.new_empty(e.shape[0], e.shape[2])


def _vsn_setup(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    x, w, _ = inputs
    ctx.mark_non_differentiable(output[0])
    ctx.save_for_backward(x, w, output[0])


def _vsn_backward(ctx, _gate, grad_out):  # type: ignore[no-untyped-def]
    x, w, gate = ctx.saved_tensors
    rows, features = x.shape[0] * x.shape[1], x.shape[2]
    grad_logits = vsn_bwd(x, gate, grad_out).reshape(rows, features)
    through_gate = linalg.matmul_nt(grad_logits, w).reshape(x.shape)
    grad_w = linalg.matmul_rows(x.reshape(rows, features), grad_logits, max(rows, 1)).sum(0)
    return features * gate * grad_out + through_gate, grad_w, _summed(grad_logits)


def _layer_norm_setup(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    _, norm, rstd = output
    ctx.mark_non_differentiable(norm, rstd)
    ctx.save_for_backward(norm, rstd, inputs[2])


def _layer_norm_backward(ctx, grad_out, _norm, _rstd):  # type: ignore[no-untyped-def]
    norm, rstd, gain = ctx.saved_tensors
    grad_x, grad_gain = layer_norm_bwd(norm, rstd, gain, grad_out)
    return grad_x, grad_x, _summed(grad_gain), _summed(grad_out)


def _attention_setup(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    ctx.mark_non_differentiable(output[0])
    ctx.save_for_backward(*inputs, output[0])


def _attention_backward(ctx, _alpha, grad_context):  # type: ignore[no-untyped-def]
    e, q, alpha = ctx.saved_tensors
    grad_e, grad_q = attention_bwd(e, q, alpha, grad_context)
    return grad_e, _summed(grad_q)


def _summed(rows_RN: Tensor) -> Tensor:
    return linalg.sum_rows(rows_RN, max(rows_RN.shape[0], 1)).sum(0)


torch.library.register_autograd("foxflow::vsn_fwd", _vsn_backward, setup_context=_vsn_setup)
torch.library.register_autograd("foxflow::layer_norm_fwd", _layer_norm_backward, setup_context=_layer_norm_setup)
torch.library.register_autograd("foxflow::attention_fwd", _attention_backward, setup_context=_attention_setup)
