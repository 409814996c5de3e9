"""Acting: draws from the policy, the greedy action, and the generator states the draws come from.

Axes: B environments, A actions. A state is torch.uint32, one word an environment, never 0.
"""

from __future__ import annotations

import torch
from torch import Tensor, float32, int32, uint32

from foxflow.errors import must
from foxflow.ops import check

_C = torch.ops.foxflow


def sample_action(logits_BA: Tensor, prng_B: Tensor) -> tuple[Tensor, Tensor]:
    """Draw an action from softmax(logits); the state is read, not advanced (see `prng_advance`).

    Args:
        logits_BA: float32.
        prng_B: uint32. u = ((x >> 9) + 1/2) 2^-23, x one xorshift32 step of it.

    Returns:
        action_B: int32, the first action whose cumulative probability passes u, the last one on a rounding gap.
        log_pi_B: float32, the log-softmax at the action.

    Raises:
        Mistake: a dtype, rank, size or device is wrong, or there is no action.

    Bits: maximum, portable exp of the difference, sum, division and cumulation ascend over A from +0.
    """
    _logits(logits_BA)
    check.tensor(prng_B, "prng_B", "B", uint32, like=logits_BA)
    check.size(prng_B, "prng_B", 0, logits_BA.shape[0], "logits_BA's rows")
    result: tuple[Tensor, Tensor] = _C.sample_action(logits_BA.contiguous(), prng_B.contiguous())
    return result


def greedy_action(logits_BA: Tensor) -> Tensor:
    """Take the action of the largest logit, the lowest index on ties; NaN counts as the largest.

    Args:
        logits_BA: float32.

    Returns:
        int32 [B].

    Raises:
        Mistake: logits_BA is not 2-D float32, or there is no action.
    """
    _logits(logits_BA)
    result: Tensor = _C.greedy_action(logits_BA.contiguous())
    return result


def prng_advance(prng_B: Tensor, times: int) -> None:
    """Advance each state in place by `times` xorshift32 steps, shifts 13, 17, 5.

    Args:
        prng_B: uint32, contiguous.
        times: steps, 0 or more. The trainer takes 1 after acting or drawing, 8 after an IQN call.

    Raises:
        Mistake: prng_B is not 1-D contiguous uint32, or times is negative.

    Bits: a launch of its own, in which each state has one writer.
    Source: Marsaglia, Xorshift RNGs, Journal of Statistical Software 8(14), 2003.
    """
    check.tensor(prng_B, "prng_B", "B", uint32)
    if not prng_B.is_contiguous():
        raise must("prng_B", "be contiguous", f"strides {prng_B.stride()}", "It is advanced in place.")
    if times < 0:
        raise must("times", "be at least 0", times)
    _C.prng_advance(prng_B, times)


def _logits(logits_BA: Tensor) -> None:
    check.tensor(logits_BA, "logits_BA", "BA", float32)
    if logits_BA.shape[1] < 1:
        raise must("logits_BA", "have at least one action on axis 1", logits_BA.shape[1])


_fake = torch.library.register_fake
_fake(
    "foxflow::sample_action",
    lambda logits, prng: (logits.new_empty(logits.shape[0], dtype=int32), logits.new_empty(logits.shape[0])),
)
_fake("foxflow::greedy_action", lambda logits: logits.new_empty(logits.shape[0], dtype=int32))
_fake("foxflow::prng_advance", lambda prng, times: None)
