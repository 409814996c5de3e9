"""What the world's operators read and change: a stretch of a tape, the accounts trading on it, what a step did.

Axes: B environments, L book levels, n rows of the tape. Prices are ticks, equity half-ticks, money 1e-4 USD, time ns.
Checked once, as they are made; the operators then trust them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor, int32, int64

from foxflow.errors import must
from foxflow.ops import check


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Rows begin … end - 1 of a tape on a device; an environment that reaches row end - 1 is closed and wraps.

    Args:
        book: int32 [n, 4L], columns bid_px | bid_sz | ask_px | ask_sz of L levels, ticks; a missing side is 0, 0.
        ts: int64 [n], ns since the epoch, never going back.
        moved: int32 [n], rows since the mid last moved.
        day_ns: int64 [n], ns since the exchange's midnight.
        begin: first row, from 0.
        end: one past the last row, at least begin + 2.

    Raises:
        Mistake: a tensor has another dtype, rank, length, layout or device, or the rows do not lie on the tape.
    """

    book: Tensor
    ts: Tensor
    moved: Tensor
    day_ns: Tensor
    begin: int
    end: int

    def __post_init__(self) -> None:
        check.tensor(self.book, "book", "NK", int32)
        if self.book.shape[1] == 0 or self.book.shape[1] % 4:
            raise must("book", "have 4 columns a level", self.book.shape[1])
        for name, dtype in (("ts", int64), ("moved", int32), ("day_ns", int64)):
            column = getattr(self, name)
            check.tensor(column, name, "N", dtype, like=self.book)
            check.size(column, name, 0, self.rows, "book's rows")
            _packed(column, name)
        _packed(self.book, "book")
        if not 0 <= self.begin <= self.end - 2 <= self.rows - 2:
            raise must("begin and end", f"hold 2 rows or more of the tape's {self.rows}", f"{self.begin}, {self.end}")

    @property
    def rows(self) -> int:
        """Rows of the whole tape."""
        return self.book.shape[0]

    @property
    def features(self) -> int:
        """F = 4L + 16."""
        return self.book.shape[1] + 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """State of B environments; `env_step` changes it in place. All [B], contiguous, on one device.

    Args:
        cursor: int64, the tape row that is seen now.
        pos: int32, -1, 0 or 1 lot.
        entry_ticks: int32, price of the open position; 0 when flat.
        cash_half_ticks: int64, 2 cash, without fees.
        pending: int32, the action in flight, 0 to 8.
        rest_side: int32, side of the resting order, 0 for none.
        rest_px_ticks: int32, its price, 0 for none.
        rest_step: int32, the step whose action sent it, -1 for none.
        open_step: int32, the step whose action opened the position, -1 when flat.
        hold_steps: int32, steps since the position opened; kept in the step that closes it, then 0.

    Raises:
        Mistake: a tensor has another dtype, rank, length, layout or device.
    """

    cursor: Tensor
    pos: Tensor
    entry_ticks: Tensor
    cash_half_ticks: Tensor
    pending: Tensor
    rest_side: Tensor
    rest_px_ticks: Tensor
    rest_step: Tensor
    open_step: Tensor
    hold_steps: Tensor

    def __post_init__(self) -> None:
        for field in fields(self):
            column = getattr(self, field.name)
            dtype = int64 if field.name in ("cursor", "cash_half_ticks") else int32
            check.tensor(column, field.name, "B", dtype, like=self.cursor)
            check.size(column, field.name, 0, self.cursor.shape[0], "cursor's environments")
            _packed(column, field.name)

    @classmethod
    def flat(cls, cursor_B: Tensor) -> Account:
        """Accounts with no position, order or cash at rows `cursor_B` (copied), on its device."""
        columns: dict[str, Tensor] = {"cursor": cursor_B.clone()}
        for name in cls.__slots__[1:]:
            dtype = int64 if name == "cash_half_ticks" else int32
            columns[name] = torch.zeros_like(cursor_B, dtype=dtype)
        columns["rest_step"].fill_(-1)
        columns["open_step"].fill_(-1)
        return cls(**columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What one lot is worth.

    Args:
        tick_value_e4: 1e-4 USD a tick; ES 125000.
        fee_e4: 1e-4 USD a fill.

    Raises:
        Mistake: the tick is worth nothing, or the fee is negative.
    """

    tick_value_e4: int
    fee_e4: int

    def __post_init__(self) -> None:
        if self.tick_value_e4 < 1:
            raise must("tick_value_e4", "be at least 1", self.tick_value_e4)
        if self.fee_e4 < 0:
            raise must("fee_e4", "be 0 or more", self.fee_e4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one step did, all [B].

    Args:
        fills: int32, fills in the step, 0 to 2.
        done: uint8, 1 where a position was closed.
        wrap: uint8, 1 where the segment's last row was reached.
        trade_pnl_e4: int64, profit of the closed trade after fees of both sides; 0 where not done.
        trade_open_step: int32, the step whose action opened the closed trade; -1 where not done.
        equity_half_ticks: int64, cash and position marked at the mid, without fees.
        equity_delta: int64, its change in the step.
    """

    fills: Tensor
    done: Tensor
    wrap: Tensor
    trade_pnl_e4: Tensor
    trade_open_step: Tensor
    equity_half_ticks: Tensor
    equity_delta: Tensor


def _packed(x: Tensor, name: str) -> None:
    if not x.is_contiguous():
        raise must(name, "be contiguous", f"strides {x.stride()}")
