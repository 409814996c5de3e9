"""Twins of foxflow/ops/replay.py: numpy and plain loops; draws by a running sum in float64, not by a tree."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def leaf_of(priority: float) -> float:
    """p^0.6."""
    return math.pow(priority, 0.6)


def update(
    leaf: npt.NDArray[np.floating], max_prio: float, idx: list[int], row_loss: list[float]
) -> tuple[Floats, float]:
    """Leaves and largest priority after drawn rows learnt; written last row first, so that the lowest row stays."""
    after = leaf.astype(np.float64)
    priorities = [loss + 1e-6 for loss in row_loss]
    for slot, priority in reversed(list(zip(idx, priorities, strict=True))):
        after[slot] = leaf_of(priority)
    return after, max([max_prio, *priorities])


def tree(leaf: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The inner nodes of float32 leaves, bit for bit: whole levels halved by pairwise float32 additions."""
    nodes = np.zeros_like(leaf)
    level = leaf
    while len(level) > 1:
        level = level[0::2] + level[1::2]
        nodes[len(level) : 2 * len(level)] = level
    return nodes


def uniform(state: int) -> float:
    """((x >> 9) + 1/2) 2^-23 of one xorshift32 step of a state."""
    for shift in (13, -17, 5):
        state ^= (state << shift if shift > 0 else state >> -shift) & 0xFFFFFFFF
    return ((state >> 9) + 0.5) / 2**23


def sample(leaf: npt.NDArray[np.floating], states: list[int], beta: float, length: int) -> tuple[list[int], Floats]:
    """Slots and importance weights of a batch in float64."""
    sums = np.cumsum(leaf.astype(np.float64))
    strata = [(b + uniform(state)) / len(states) * sums[-1] for b, state in enumerate(states)]
    slots = [int(np.searchsorted(sums, u, "right")) for u in strata]
    weights = np.array([(length * float(leaf[slot]) / sums[-1]) ** -beta for slot in slots])
    return slots, weights / weights.max()


def assign_labels(
    slot_outcome: list[int], batch: int, step: int, trades: list[tuple[int, int, int] | None]
) -> list[int]:
    """Slots after the trades (environment, profit, first step) of a step were labelled."""
    after = list(slot_outcome)
    in_ring = range(max(0, step + 1 - len(after) // batch), step + 1)
    for trade in trades:
        if trade:
            environment, pnl, first = trade
            for s in in_ring:
                if s >= first:
                    after[(s * batch + environment) % len(after)] = 1 + (pnl > 0) - (pnl < 0)
    return after
