"""Prioritised replay: a leaf p^0.6 for each slot of a ring, a tree of pair sums above, draws in equal strata.

Axes: C slots (a power of two), B rows drawn or environments. The slot of environment b's step s is (s B + b) mod C.
Steps are int64 scalars on the device. They and slots are checked on a CPU only: on a GPU reading one would make the
host wait, and the kernels write none outside.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, float32, int32, int64, uint8, uint32

from foxflow.errors import must
from foxflow.ops import check

_C = torch.ops.foxflow
ISV = 16
MAX_RINGS = 16


def ring_insert(rings: Sequence[Tensor], rows: Sequence[Tensor], step: Tensor) -> None:
    """Write a step's rows into its slots of each ring, in place, by one launch.

    Args:
        rings: 1 to 16 of them, [C, …] of any dtype, contiguous; changed.
        rows: [B, …] for each.
        step: int64 scalar.

    Raises:
        Mistake: rows do not fit their ring, a ring is not contiguous, or on a CPU the step is negative.
    """
    if not 1 <= len(rings) <= MAX_RINGS or len(rows) != len(rings):
        raise must("rings", f"be 1 to {MAX_RINGS}, each with its rows", f"{len(rings)} and {len(rows)}")
    check.clock(step, rings[0])
    for i, (ring, fresh) in enumerate(zip(rings, rows, strict=True)):
        name = f"rows[{i}]"
        if fresh.dtype != ring.dtype or fresh.shape[1:] != ring.shape[1:] or fresh.device != ring.device:
            wanted, got = (f"{x.dtype} {list(x.shape[1:])} on {x.device}" for x in (ring, fresh))
            raise must(name, f"be rows of {wanted} like their ring", got)
        _turns(ring, f"rings[{i}]", fresh.shape[0])
        _packed(ring, f"rings[{i}]")
    _C.ring_insert(list(rings), [x.contiguous() for x in rows], step)


def per_insert(leaf_C: Tensor, step: Tensor, rows: int, max_prio: Tensor) -> None:
    """Give a step's slots the leaf max_prio^0.6, in place.

    Args:
        leaf_C: float32; changed.
        step: int64 scalar.
        rows: B.
        max_prio: float32 scalar, the largest priority so far.

    Raises:
        Mistake: a tensor does not fit, B does not divide C, or on a CPU the step is negative.
    """
    _slots(leaf_C, "leaf_C")
    check.tensor(max_prio, "max_prio", "", float32, like=leaf_C)
    check.clock(step, leaf_C)
    _turns(leaf_C, "leaf_C", rows)
    _C.per_insert(leaf_C, step, rows, max_prio)


def per_update(leaf_C: Tensor, max_prio: Tensor, idx_B: Tensor, row_loss_B: Tensor) -> None:
    """Give drawn slots the priority row_loss + 1e-6, in place: leaf = p^0.6, max_prio = the largest p so far.

    Args:
        leaf_C: float32; changed.
        max_prio: float32 scalar; changed. A NaN loss leaves it alone.
        idx_B: int32, drawn slots; where one comes twice, the lowest row writes.
        row_loss_B: float32, 0 or more, before importance weights.

    Raises:
        Mistake: a tensor does not fit, or on a CPU a slot is outside the ring.
    """
    _slots(leaf_C, "leaf_C")
    check.tensor(max_prio, "max_prio", "", float32, like=leaf_C)
    check.tensor(idx_B, "idx_B", "B", int32, like=leaf_C)
    check.tensor(row_loss_B, "row_loss_B", "B", float32, like=leaf_C)
    check.size(row_loss_B, "row_loss_B", 0, idx_B.shape[0], "idx_B's rows")
    if idx_B.device.type == "cpu" and idx_B.numel():
        low, high = (int(v) for v in torch.aminmax(idx_B))
        if low < 0 or high >= leaf_C.shape[0]:
            raise must("idx_B", f"lie in 0 to {leaf_C.shape[0] - 1}", low if low < 0 else high)
    _C.per_update(leaf_C, max_prio, idx_B.contiguous(), row_loss_B.contiguous())


def per_rebuild(leaf_C: Tensor, tree_C: Tensor) -> None:
    """Sum the leaves pairwise up to the root, in place.

    Args:
        leaf_C: float32.
        tree_C: float32; changed. Node i of 1 … C - 1 is the sum of nodes 2i and 2i + 1, node C + s being leaf s; the
            root is node 1, element 0 is 0.

    Raises:
        Mistake: a tensor does not fit, or C is not a power of two.

    Bits: parent = left + right, one rounding; a barrier between levels, so no node reads an unfinished child.
    """
    _slots(leaf_C, "leaf_C")
    _slots(tree_C, "tree_C")
    check.tensor(tree_C, "tree_C", "C", float32, like=leaf_C)
    check.size(tree_C, "tree_C", 0, leaf_C.shape[0], "leaf_C's slots")
    _C.per_rebuild(leaf_C, tree_C)


def per_sample(leaf_C: Tensor, tree_C: Tensor, prng_B: Tensor, isv: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """Draw a slot for each row, in proportion to the leaves, and its importance weight.

    u = (b + xi) / B · root, xi = ((x >> 9) + ½) 2^-23 of one xorshift32 step x of prng[b] (not advanced here). From the
    root: left where u < left or right is 0, else right with u - left. weight = (length · leaf / root)^-beta, divided by
    the largest of the batch.

    Args:
        leaf_C: float32.
        tree_C: float32, as `per_rebuild` leaves it.
        prng_B: uint32, never 0.
        isv: float32 [16]; beta is isv[3].
        length: int64 scalar, filled slots.

    Returns:
        idx int32 [B]; weight float32 [B], at most 1, NaN where the leaf or the root is.

    Raises:
        Mistake: a tensor does not fit.

    Source: Schaul et al., Prioritized Experience Replay, 2016, section 3.3 and 3.4.
    """
    _slots(leaf_C, "leaf_C")
    _slots(tree_C, "tree_C")
    check.tensor(tree_C, "tree_C", "C", float32, like=leaf_C)
    check.size(tree_C, "tree_C", 0, leaf_C.shape[0], "leaf_C's slots")
    check.tensor(prng_B, "prng_B", "B", uint32, like=leaf_C)
    check.tensor(isv, "isv", "I", float32, like=leaf_C)
    check.size(isv, "isv", 0, ISV, "internal state variables")
    check.tensor(length, "length", "", int64, like=leaf_C)
    result: tuple[Tensor, Tensor] = _C.per_sample(leaf_C, tree_C, prng_B.contiguous(), isv.contiguous(), length)
    return result


def assign_labels(
    slot_outcome_C: Tensor, step: Tensor, done_B: Tensor, trade_pnl_e4_B: Tensor, trade_open_step_B: Tensor
) -> None:
    """Where done, write how the closed trade ended into the slots of its steps that are still in the ring, in place.

    Args:
        slot_outcome_C: int32; changed: 0 loss, 1 scratch, 2 win.
        step: int64 scalar, the step just stored; the ring holds the last C / B steps.
        done_B: uint8.
        trade_pnl_e4_B: int64, its sign is the class.
        trade_open_step_B: int32, the trade's first step.

    Raises:
        Mistake: a tensor does not fit, B does not divide C, or on a CPU the step is negative.
    """
    check.tensor(slot_outcome_C, "slot_outcome_C", "C", int32)
    check.tensor(done_B, "done_B", "B", uint8, like=slot_outcome_C)
    batch = done_B.shape[0]
    for x, name, dtype in ((trade_pnl_e4_B, "trade_pnl_e4_B", int64), (trade_open_step_B, "trade_open_step_B", int32)):
        check.tensor(x, name, "B", dtype, like=slot_outcome_C)
        check.size(x, name, 0, batch, "done_B's environments")
    _turns(slot_outcome_C, "slot_outcome_C", batch)
    _packed(slot_outcome_C, "slot_outcome_C")
    check.clock(step, slot_outcome_C)
    _C.assign_labels(
        slot_outcome_C, step, done_B.contiguous(), trade_pnl_e4_B.contiguous(), trade_open_step_B.contiguous()
    )


def _slots(x: Tensor, name: str) -> None:
    check.tensor(x, name, "C", float32)
    slots = x.shape[0]
    if slots < 2 or slots & (slots - 1):
        raise must(name, "have a power of two of slots, 2 or more", slots)
    _packed(x, name)


def _turns(x: Tensor, name: str, batch: int) -> None:
    if batch <= 0 or x.numel() == 0 or x.shape[0] % batch:
        raise must(name, f"have a multiple of {batch} slots", x.shape[0])


def _packed(x: Tensor, name: str) -> None:
    if not x.is_contiguous():
        raise must(name, "be contiguous", f"strides {x.stride()}")


@torch.library.register_fake("foxflow::per_sample")
def _(leaf: Tensor, tree: Tensor, prng: Tensor, isv: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    return leaf.new_empty(prng.shape[0], dtype=int32), leaf.new_empty(prng.shape[0])


for _op in ("ring_insert", "per_insert", "per_update", "per_rebuild", "assign_labels"):
    torch.library.register_fake(f"foxflow::{_op}", lambda *_: None)
