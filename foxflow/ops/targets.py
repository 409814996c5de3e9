"""What the heads are pulled towards: r + gamma (1 - d) times the target networks' view of the next state.

Axes: B batch rows, A actions, Z atoms, Q quantiles. All float32 but done_B (uint8); no gradient flows through a
target. isv is float32 [16] and gamma its element 2.
"""

from __future__ import annotations

import torch
from torch import Tensor, float32, uint8

from foxflow.errors import must
from foxflow.ops import check

_C = torch.ops.foxflow
ISV_SIZE = 16


def c51_target(logits_BAZ: Tensor, reward_B: Tensor, done_B: Tensor, isv: Tensor) -> Tensor:
    """Project r + gamma (1 - d) z, weighted by the greedy action's distribution, onto the Z atoms on [-2, 2].

    Args:
        logits_BAZ: of the target network at the next state; the greedy action is that of the largest mean, the
            lowest on ties.
        reward_B: shaped reward.
        done_B: 1 where the episode, or the tape, ended after this step.
        isv: gamma is element 2.

    Returns:
        [B, Z], each row a distribution.

    Raises:
        Mistake: a dtype, rank, size or device is wrong, or there are less than two atoms.

    Bits: atom j is (4j - 2(Z-1)) / (Z-1), one division of exact integers; its place (clip(y, -2, 2) + 2) (Z-1)/4;
        j ascending, the lower neighbour before the upper, all mass to an atom that is hit.
    Source: Bellemare, Dabney and Munos, A Distributional Perspective on Reinforcement Learning, 2017, algorithm 1.
    """
    _next(logits_BAZ, "logits_BAZ", "BAZ")
    check.size(logits_BAZ, "logits_BAZ", 2, max(logits_BAZ.shape[2], 2), "atoms need a distance")
    return _target("c51_target", logits_BAZ, reward_B, done_B, isv)


def v_target(v_B1: Tensor, reward_B: Tensor, done_B: Tensor, isv: Tensor) -> Tensor:
    """Bootstrap the value: r + gamma (1 - d) v.

    Returns:
        [B].

    Raises:
        Mistake: a dtype, rank, size or device is wrong.
    """
    _next(v_B1, "v_B1", "B1")
    check.size(v_B1, "v_B1", 1, 1, "one value a row")
    return _target("v_target", v_B1, reward_B, done_B, isv)


def iqn_target(q_BQA: Tensor, reward_B: Tensor, done_B: Tensor, isv: Tensor) -> Tensor:
    """Bootstrap each quantile: y_j = r + gamma (1 - d) q_j[a], a greedy by the mean over Q of this same call.

    Returns:
        [B, Q].

    Raises:
        Mistake: a dtype, rank, size or device is wrong, or an axis is empty.

    Bits: a mean is an ascending sum divided by Q; the lowest action on ties.
    """
    _next(q_BQA, "q_BQA", "BQA")
    return _target("iqn_target", q_BQA, reward_B, done_B, isv)


def dueling_target(q_BA: Tensor, reward_B: Tensor, done_B: Tensor, isv: Tensor) -> Tensor:
    """Bootstrap the best action: r + gamma (1 - d) max q.

    Returns:
        [B].

    Raises:
        Mistake: a dtype, rank, size or device is wrong, or there is no action.
    """
    _next(q_BA, "q_BA", "BA")
    return _target("dueling_target", q_BA, reward_B, done_B, isv)


def _next(x: Tensor, name: str, axes: str) -> None:
    check.tensor(x, name, axes, float32)
    for axis in range(1, x.ndim):
        if x.shape[axis] < 1:
            raise must(name, f"have at least one element on axis {axis}", x.shape[axis])


def _target(op: str, x: Tensor, reward_B: Tensor, done_B: Tensor, isv: Tensor) -> Tensor:
    check.tensor(reward_B, "reward_B", "B", float32, like=x)
    check.tensor(done_B, "done_B", "B", uint8, like=x)
    check.tensor(isv, "isv", "I", float32, like=x)
    check.size(reward_B, "reward_B", 0, x.shape[0], "batch rows")
    check.size(done_B, "done_B", 0, x.shape[0], "batch rows")
    check.size(isv, "isv", 0, ISV_SIZE, "state variables")
    run = getattr(_C, op)
    result: Tensor = run(x.contiguous(), reward_B.contiguous(), done_B.contiguous(), isv.contiguous())
    return result


_fake = torch.library.register_fake
_fake("foxflow::c51_target", lambda x, reward, done, isv: x.new_empty(x.shape[0], x.shape[2]))
_fake("foxflow::v_target", lambda x, reward, done, isv: x.new_empty(x.shape[0]))
_fake("foxflow::iqn_target", lambda x, reward, done, isv: x.new_empty(x.shape[0], x.shape[1]))
_fake("foxflow::dueling_target", lambda x, reward, done, isv: x.new_empty(x.shape[0]))
