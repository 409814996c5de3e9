"""Implicit quantile networks: drawn quantiles, their cosines, and the product with the state.

Axes: B batch rows, Q quantiles, E cosines, H hidden.
"""

from __future__ import annotations

import torch
from torch import Tensor, float32, uint32

from foxflow.errors import must
from foxflow.ops import check

_C = torch.ops.foxflow


def iqn_tau_cos(prng_B: Tensor, quantiles: int, cosines: int) -> tuple[Tensor, Tensor]:
    """Draw quantiles from each row's state and take their cosines; the state is read, not advanced.

    Args:
        prng_B: uint32.
        quantiles: Q; for (b, i), x = fmix32(prng[b] + 0x9E3779B9 (i + 1)).
        cosines: E.

    Returns:
        tau_BQ: float32, ((x >> 9) + 1/2) 2^-23, strictly inside (0, 1).
        cos_BQE: float32, cos(pi e tau) for e = 0 ... E - 1, within 2 ulp.

    Raises:
        Mistake: prng_B is not 1-D uint32, or a size is not positive.

    Bits: the angle is reduced in integers before the polynomial, so no e is large.
    Source: Dabney and others, Implicit Quantile Networks, 2018, eq. 4; Appleby, MurmurHash3's finaliser.
    """
    check.tensor(prng_B, "prng_B", "B", uint32)
    for name, count in (("quantiles", quantiles), ("cosines", cosines)):
        if count < 1:
            raise must(name, "be at least 1", count)
    result: tuple[Tensor, Tensor] = _C.iqn_tau_cos(prng_B.contiguous(), quantiles, cosines)
    return result


def iqn_mix_fwd(pre_BQH: Tensor, h_BH: Tensor) -> Tensor:
    """Multiply the state by the rectified embedding of each quantile: h relu(pre).

    Args:
        pre_BQH: float32 or float64, cosines times weights plus bias.
        h_BH: pre_BQH's dtype, repeated over Q. It gets no gradient: IQN reads the state behind a stop-gradient.

    Returns:
        [B, Q, H], contiguous. Differentiable in pre_BQH.

    Raises:
        Mistake: a dtype, rank, size or device is wrong.
    """
    _mix(pre_BQH, h_BH)
    result: Tensor = _C.iqn_mix_fwd(pre_BQH.contiguous(), h_BH.contiguous())
    return result


def iqn_mix_bwd(pre_BQH: Tensor, h_BH: Tensor, grad_out_BQH: Tensor) -> Tensor:
    """Take a gradient of `iqn_mix_fwd` back to pre: grad_out h where pre > 0, else +0.

    Returns:
        [B, Q, H], contiguous.

    Raises:
        Mistake: a dtype, rank, size or device is wrong.
    """
    _mix(pre_BQH, h_BH)
    check.tensor(grad_out_BQH, "grad_out_BQH", "BQH", like=pre_BQH)
    for axis, length in enumerate(pre_BQH.shape):
        check.size(grad_out_BQH, "grad_out_BQH", axis, length, "as pre_BQH")
    result: Tensor = _C.iqn_mix_bwd(pre_BQH.contiguous(), h_BH.contiguous(), grad_out_BQH.contiguous())
    return result


def _mix(pre_BQH: Tensor, h_BH: Tensor) -> None:
    check.tensor(pre_BQH, "pre_BQH", "BQH")
    check.tensor(h_BH, "h_BH", "BH", like=pre_BQH)
    check.size(h_BH, "h_BH", 0, pre_BQH.shape[0], "pre_BQH's rows")
    check.size(h_BH, "h_BH", 1, pre_BQH.shape[2], "pre_BQH's last axis")


def _tau_cos_fake(prng: Tensor, quantiles: int, cosines: int) -> tuple[Tensor, Tensor]:
    shape = (prng.shape[0], quantiles)
    return prng.new_empty(shape, dtype=float32), prng.new_empty(*shape, cosines, dtype=float32)


torch.library.register_fake("foxflow::iqn_tau_cos", _tau_cos_fake)
torch.library.register_fake("foxflow::iqn_mix_fwd", lambda pre, h: torch.empty_like(pre))
torch.library.register_fake("foxflow::iqn_mix_bwd", lambda pre, h, grad_out: torch.empty_like(pre))


def _mix_setup(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    ctx.save_for_backward(*inputs)


def _mix_backward(ctx, grad):  # type: ignore[no-untyped-def]
    pre, h = ctx.saved_tensors
    return iqn_mix_bwd(pre, h, grad), None


torch.library.register_autograd("foxflow::iqn_mix_fwd", _mix_backward, setup_context=_mix_setup)
