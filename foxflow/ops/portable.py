"""exp, log, tanh … whose results are the same bits on every processor: cuda_ext/portable.h, element by element.

The other operators use these inside their kernels; here they stand alone, for tests and for `foxflow doctor`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from foxflow.errors import must
from foxflow.ops import check

_C = torch.ops.foxflow

FUNCTIONS = ("exp", "log", "log1p", "tanh", "sigmoid", "softplus", "sin", "cos")
"""In the order of the compiled operator's `which`."""


def apply(function: str, x: Tensor) -> Tensor:
    """Apply one portable function to each element.

    Args:
        function: one of `FUNCTIONS`.
        x: float32 or float64, any shape; float64 (for gradient checks) uses the standard library instead.

    Returns:
        x's shape and dtype, contiguous.

    Raises:
        Mistake: the function is unknown, or x is no float32 or float64.

    Bits: within 2 ulp of the exact value for every float32; a NaN result is 0x7FC00000.
    """
    if function not in FUNCTIONS:
        raise must("function", f"be one of {', '.join(FUNCTIONS)}", function)
    check.tensor(x, "x", "." * x.ndim)
    result: Tensor = _C.portable(x.reshape(-1).contiguous(), FUNCTIONS.index(function))
    return result.reshape(x.shape)


def power(x: Tensor, y: Tensor) -> Tensor:
    """Raise x to y as exp(y log x), for x >= 0, element by element.

    Args:
        x: float32 or float64, any shape.
        y: x's dtype and shape.

    Returns:
        x's shape and dtype, contiguous.

    Raises:
        Mistake: the dtypes or shapes differ.

    Bits: the product is rounded before exp, which costs about |y log x| ulp.
    """
    check.tensor(x, "x", "." * x.ndim)
    check.tensor(y, "y", "." * x.ndim, like=x)
    if y.shape != x.shape:
        raise must("y", f"have x's shape {tuple(x.shape)}", tuple(y.shape))
    result: Tensor = _C.portable_pow(x.reshape(-1).contiguous(), y.reshape(-1).contiguous())
    return result.reshape(x.shape)


@torch.library.register_fake("foxflow::portable")
def _(x: Tensor, which: int) -> Tensor:
    return torch.empty_like(x)


@torch.library.register_fake("foxflow::portable_pow")
def _(x: Tensor, y: Tensor) -> Tensor:
    return torch.empty_like(x)
