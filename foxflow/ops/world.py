"""The market as the agent meets it: books, features, one step of orders and money, labels. Integers up to `obs`.

Axes: B environments, K = 4L book columns, F = 4L + 16 features, T window, H hidden, S horizons.
Rows and actions are checked on a CPU only: on a GPU reading one would make the host wait, and the kernels read no row
off the tape and take an unknown action for a hold.
"""

from __future__ import annotations

import torch
from torch import Tensor, float32, int32, int64, uint8

from foxflow.errors import must
from foxflow.ops import check
from foxflow.ops.world_state import Account, Contract, Segment, Step

_C = torch.ops.foxflow
ACTIONS = 9
ISV = 16


def book_gather(segment: Segment, cursor_B: Tensor) -> Tensor:
    """The book of each environment's row.

    Args:
        segment: the tape.
        cursor_B: int64, rows of the tape.

    Returns:
        int32 [B, K]: bid_px | bid_sz | ask_px | ask_sz.

    Raises:
        Mistake: cursor_B has another dtype, rank or device, or on a CPU lies off the tape.
    """
    _rows(cursor_B, segment, 0, segment.rows)
    result: Tensor = _C.book_gather(segment.book, cursor_B.contiguous())
    return result


def features(segment: Segment, account: Account) -> tuple[Tensor, Tensor]:
    """What each environment sees at its row, and how long the row before stood.

    Args:
        segment: the tape; its first row has no row before it and is compared with itself.
        account: where the environments are and what they hold.

    Returns:
        obs float32 [B, F]: log1p(size)/8 and distance to the mid of each level, then 16 scalars: mid move, microprice,
        spread, queue and depth imbalance, order flow of level 1 and of all, time since the row before, sine and cosine
        of the day, rows since the mid moved, share of the segment, position, open profit, hold, side in flight + ¼ of
        the resting side. dt float32 [B]: seconds since the row before, in [1e-3, 10].

    Raises:
        Mistake: the account is on another device, or on a CPU a cursor lies outside the segment.

    Bits: differences and sums of book columns are exact integers; the mean over levels ascends from +0.
    Source: order flow: Cont, Kukanov and Stoikov, 2014; both comparisons of a side include equality.
    """
    _rows(account.cursor, segment, segment.begin, segment.end)
    result: tuple[Tensor, Tensor] = _C.features(
        *_tape(segment), account.cursor, account.pos, account.entry_ticks, account.hold_steps, account.pending,
        account.rest_side,
    )  # fmt: skip
    return result


def window_push(window_BTF: Tensor, obs_BF: Tensor, fresh_B: Tensor, segment: Segment, cursor_B: Tensor) -> None:
    """Append obs to each window and drop its oldest row, in place; where fresh, rebuild it from the tape instead.

    Args:
        window_BTF: float32, contiguous, oldest row first; changed.
        obs_BF: float32, `features` of the cursor's row; not read where fresh.
        fresh_B: uint8, 1 where the window starts anew: rows cursor - T + 1 … cursor with a flat account's features.
        segment: the tape; rows before its first are given as its first.
        cursor_B: int64.

    Raises:
        Mistake: a tensor does not fit, or on a CPU a cursor lies outside the segment.
    """
    check.tensor(window_BTF, "window_BTF", "BTF", float32, like=segment.book)
    if window_BTF.shape[1] == 0 or not window_BTF.is_contiguous():
        raise must("window_BTF", "be contiguous with a row or more", f"shape {tuple(window_BTF.shape)}")
    check.size(window_BTF, "window_BTF", 2, segment.features, "4 L + 16")
    check.tensor(obs_BF, "obs_BF", "BF", float32, like=window_BTF)
    check.size(obs_BF, "obs_BF", 1, segment.features, "4 L + 16")
    _column(fresh_B, "fresh_B", uint8, window_BTF)
    check.size(obs_BF, "obs_BF", 0, window_BTF.shape[0], "window_BTF's environments")
    check.size(cursor_B, "cursor_B", 0, window_BTF.shape[0], "window_BTF's environments")
    _rows(cursor_B, segment, segment.begin, segment.end)
    _C.window_push(window_BTF, obs_BF.contiguous(), fresh_B.contiguous(), *_tape(segment), cursor_B.contiguous())


def env_step(segment: Segment, account: Account, contract: Contract, action_B: Tensor, step: Tensor) -> Step:
    """Move each environment one row on and settle its orders; the account is changed in place.

    At the new row the resting order fills at its own price if the other side's touch reached it; then the order sent
    at step - 1 arrives (an order beyond one lot is ignored wholly, a new one replaces the resting one); then action_B
    goes in flight. At the segment's last row nothing arrives: the position is closed at the touch, orders are dropped.

    Args:
        segment: the tape.
        account: changed; each cursor must be before the segment's last row.
        contract: tick value and fee.
        action_B: int32: 0 hold, 1 market buy, 2 market sell, 3 join bid, 4 join ask, 5 improve bid, 6 improve ask
            (one tick where the spread is 2 or more, else join), 7 cancel, 8 flatten (market and cancel).
        step: int64 scalar, number of the step, from 0; a trade's open_step is the step whose action opened it.

    Returns:
        fills, done, wrap, the closed trade's profit and first step, equity and its change.

    Raises:
        Mistake: a tensor does not fit, or on a CPU a row, an action or the step (by int32) is out of range.
    """
    _rows(account.cursor, segment, segment.begin, segment.end - 1)
    _column(action_B, "action_B", int32, account.cursor)
    _values(action_B, "action_B", 0, ACTIONS)
    check.clock(step, account.cursor)
    out = _C.env_step(
        segment.book, segment.end, step, contract.tick_value_e4, contract.fee_e4, action_B.contiguous(), account.cursor,
        account.pos, account.entry_ticks, account.cash_half_ticks, account.pending, account.rest_side,
        account.rest_px_ticks, account.rest_step, account.open_step, account.hold_steps,
    )  # fmt: skip
    return Step(**dict(zip(Step.__slots__, out, strict=True)))


def reward(step: Step, isv: Tensor, contract: Contract) -> tuple[Tensor, Tensor]:
    """Ticks earned in a step after fees, and the same scaled by isv[4] and clipped to [-1, 1].

    Args:
        step: what `env_step` returned.
        isv: float32 [16].
        contract: tick value and fee.

    Returns:
        raw and shaped, float32 [B].

    Raises:
        Mistake: isv is not float32 [16] on the step's device.
    """
    check.tensor(isv, "isv", "I", float32, like=step.fills)
    check.size(isv, "isv", 0, ISV, "internal state variables")
    result: tuple[Tensor, Tensor] = _C.reward(
        step.equity_delta, step.fills, isv.contiguous(), contract.tick_value_e4, contract.fee_e4
    )
    return result


def env_wrap(account: Account, wrap_B: Tensor, segment: Segment, start: int) -> None:
    """Put the cursor back to row `start` where wrap_B (uint8) is 1, in place.

    Raises:
        Mistake: wrap_B does not fit, or start is not a row of the segment before its last.
    """
    _column(wrap_B, "wrap_B", uint8, account.cursor)
    if not segment.begin <= start < segment.end - 1:
        raise must("start", f"be {segment.begin} to {segment.end - 2}", start)
    _C.env_wrap(account.cursor, wrap_B.contiguous(), start)


def carry_update(carry_BH: Tensor, h_BH: Tensor, wrap_B: Tensor) -> None:
    """Set the recurrent carry of the next step, in place: h, or +0 where wrap_B (uint8) is 1.

    Raises:
        Mistake: a tensor is not float32 of carry_BH's shape, or carry_BH is not contiguous.
    """
    check.tensor(carry_BH, "carry_BH", "BH", float32)
    check.tensor(h_BH, "h_BH", "BH", float32, like=carry_BH)
    check.size(h_BH, "h_BH", 0, carry_BH.shape[0], "carry_BH's environments")
    check.size(h_BH, "h_BH", 1, carry_BH.shape[1], "carry_BH's width")
    _column(wrap_B, "wrap_B", uint8, carry_BH)
    if not carry_BH.is_contiguous():
        raise must("carry_BH", "be contiguous", f"strides {carry_BH.stride()}")
    _C.carry_update(carry_BH, h_BH.contiguous(), wrap_B.contiguous())


def frd_labels(segment: Segment, cursor_B: Tensor, horizons: tuple[int, ...]) -> Tensor:
    """Bins of the mid's move over each horizon: whole ticks, halves to even, clipped to ±10, plus 10.

    Args:
        segment: the tape.
        cursor_B: int64.
        horizons: rows ahead, each 1 or more, at most 8 of them.

    Returns:
        int32 [B, S], 0 to 20; -1 where the horizon ends past the segment.

    Raises:
        Mistake: cursor_B does not fit, there are no or too many horizons, or on a CPU a cursor is outside the segment.
    """
    _rows(cursor_B, segment, segment.begin, segment.end)
    if not 1 <= len(horizons) <= 8 or min(horizons) < 1:
        raise must("horizons", "be 1 to 8 numbers, each 1 or more", horizons)
    result: Tensor = _C.frd_labels(segment.book, segment.end, cursor_B.contiguous(), list(horizons))
    return result


def _tape(segment: Segment) -> tuple[Tensor, Tensor, Tensor, Tensor, int, int]:
    return segment.book, segment.ts, segment.moved, segment.day_ns, segment.begin, segment.end


def _column(x: Tensor, name: str, dtype: torch.dtype, like: Tensor) -> None:
    check.tensor(x, name, "B", dtype, like=like)
    check.size(x, name, 0, like.shape[0], "environments")


def _rows(cursor_B: Tensor, segment: Segment, first: int, end: int) -> None:
    check.tensor(cursor_B, "cursor_B", "B", int64, like=segment.book)
    _values(cursor_B, "cursor_B", first, end)


def _values(x: Tensor, name: str, first: int, end: int) -> None:
    if x.device.type != "cpu" or x.numel() == 0:
        return
    low, high = (int(v) for v in torch.aminmax(x))
    if low < first or high >= end:
        raise must(name, f"lie in {first} to {end - 1}", low if low < first else high)


@torch.library.register_fake("foxflow::book_gather")
def _(book: Tensor, cursor: Tensor) -> Tensor:
    return book.new_empty(cursor.shape[0], book.shape[1])


@torch.library.register_fake("foxflow::features")
def _(book: Tensor, ts: Tensor, moved: Tensor, day: Tensor, begin: int, end: int, cursor: Tensor, *_: Tensor) -> object:
    batch = cursor.shape[0]
    return book.new_empty(batch, book.shape[1] + 16, dtype=float32), book.new_empty(batch, dtype=float32)


@torch.library.register_fake("foxflow::env_step")
def _(book: Tensor, end: int, step: Tensor, tick_value: int, fee: int, action: Tensor, *_: Tensor) -> object:
    return tuple(torch.empty_like(action, dtype=d) for d in (int32, uint8, uint8, int64, int32, int64, int64))


@torch.library.register_fake("foxflow::reward")
def _(delta: Tensor, fills: Tensor, isv: Tensor, tick_value: int, fee: int) -> object:
    return torch.empty_like(delta, dtype=float32), torch.empty_like(delta, dtype=float32)


@torch.library.register_fake("foxflow::frd_labels")
def _(book: Tensor, end: int, cursor: Tensor, horizons: list[int]) -> Tensor:
    return book.new_empty(cursor.shape[0], len(horizons))


for _op in ("window_push", "env_wrap", "carry_update"):
    torch.library.register_fake(f"foxflow::{_op}", lambda *_: None)
