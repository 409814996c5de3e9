"""The dueling head: value and advantages composed to action values.

Axes: B batch rows, A actions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from foxflow.errors import must
from foxflow.ops import check

_C = torch.ops.foxflow


def dueling_compose(v_B1: Tensor, a_BA: Tensor) -> Tensor:
    """Compose action values: (V + A) - mean A.

    Args:
        v_B1: float32 or float64, the value of each row.
        a_BA: v_B1's dtype, the advantages.

    Returns:
        [B, A], contiguous. Differentiable in both.

    Raises:
        Mistake: a dtype, rank, size or device is wrong, or there is no action.

    Bits: the mean is an ascending sum divided by A.
    Source: Wang and others, Dueling Network Architectures, 2016, eq. 9.
    """
    _actions(a_BA, "a_BA")
    check.tensor(v_B1, "v_B1", "B1", like=a_BA)
    check.size(v_B1, "v_B1", 0, a_BA.shape[0], "a_BA's rows")
    check.size(v_B1, "v_B1", 1, 1, "one value a row")
    result: Tensor = _C.dueling_compose(v_B1.contiguous(), a_BA.contiguous())
    return result


def dueling_split(grad_BA: Tensor) -> tuple[Tensor, Tensor]:
    """Take a gradient of `dueling_compose` apart.

    Returns:
        grad_v_B1: the sum over A, ascending.
        grad_a_BA: grad - grad_v / A.

    Raises:
        Mistake: grad_BA is not 2-D float32 or float64, or there is no action.
    """
    _actions(grad_BA, "grad_BA")
    result: tuple[Tensor, Tensor] = _C.dueling_split(grad_BA.contiguous())
    return result


def _actions(x_BA: Tensor, name: str) -> None:
    check.tensor(x_BA, name, "BA")
    if x_BA.shape[1] < 1:
        raise must(name, "have at least one action on axis 1", x_BA.shape[1])


torch.library.register_fake("foxflow::dueling_compose", lambda v, a: torch.empty_like(a))
torch.library.register_fake(
    "foxflow::dueling_split", lambda grad: (grad.new_empty(grad.shape[0], 1), torch.empty_like(grad))
)


def _compose_setup(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    pass


def _compose_backward(ctx, grad):  # type: ignore[no-untyped-def]
    return dueling_split(grad)


torch.library.register_autograd("foxflow::dueling_compose", _compose_backward, setup_context=_compose_setup)
