"""Twins of foxflow/ops/world.py: one environment at a time in Python integers and float64. Nothing here is fast."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

Books = npt.NDArray[np.int32]
Times = npt.NDArray[np.int64]
Level = tuple[int, int, int, int]


@dataclass(kw_only=True)
class Order:
    """A limit order at rest: side ±1, price in ticks, the step whose action sent it."""

    side: int
    price: int
    sent: int


@dataclass(kw_only=True)
class Position:
    """An open lot: side ±1, entry in ticks, the step whose action opened it, steps held so far."""

    side: int
    entry: int
    opened: int
    held: int = 0


@dataclass(kw_only=True)
class Trader:
    """One environment: walks the tape a row a step; cash is the sum of all fills, side · price.

    `last` is the segment's last row, where everything is closed. Prices are ticks, money 1e-4 USD.
    """

    book: Books
    last: int
    row: int
    tick_value_e4: int
    fee_e4: int
    step: int = 0
    position: Position | None = None
    resting: Order | None = None
    in_flight: int = 0
    cash: int = 0
    trades: int = 0
    kept_hold: int = 0

    def touch(self) -> tuple[int, int]:
        """Best bid and ask of the row."""
        levels = self.book.shape[1] // 4
        return int(self.book[self.row, 0]), int(self.book[self.row, 2 * levels])

    def equity(self) -> Fraction:
        """Cash of all fills and the open lot at the mid, in ticks."""
        bid, ask = self.touch()
        return self.cash + (self.position.side if self.position else 0) * Fraction(bid + ask, 2)

    def advance(self, action: int) -> dict[str, int]:
        """Play one step; the result's keys are the fields of the operator's Step."""
        before, trades = self.equity(), self.trades
        self.row += 1
        self.kept_hold = 0
        if self.position:
            self.position.held += 1
            self.kept_hold = self.position.held
        closed: list[tuple[int, int]] = []
        self._rest_fills(closed)
        wrapped = self.row == self.last
        if wrapped:
            self._flatten(closed)
        else:
            self._arrives(self.in_flight, closed)
        self.in_flight = 0 if wrapped else action
        self.step += 1
        pnl, opened = closed[0] if closed else (0, -1)
        return {
            "fills": self.trades - trades,
            "done": len(closed),
            "wrap": int(wrapped),
            "trade_pnl_e4": pnl,
            "trade_open_step": opened,
            "equity_half_ticks": int(2 * self.equity()),
            "equity_delta": int(2 * (self.equity() - before)),
        }

    def state(self) -> dict[str, int]:
        """The account as the operator writes it down."""
        at, rest = self.position, self.resting
        return {
            "cursor": self.row,
            "pos": at.side if at else 0,
            "entry_ticks": at.entry if at else 0,
            "cash_half_ticks": 2 * self.cash,
            "pending": self.in_flight,
            "rest_side": rest.side if rest else 0,
            "rest_px_ticks": rest.price if rest else 0,
            "rest_step": rest.sent if rest else -1,
            "open_step": at.opened if at else -1,
            "hold_steps": at.held if at else self.kept_hold,
        }

    def _trade(self, side: int, price: int, sent: int, closed: list[tuple[int, int]]) -> None:
        self.cash -= side * price
        self.trades += 1
        if self.position is None:
            self.position = Position(side=side, entry=price, opened=sent)
            return
        ticks = self.position.side * (price - self.position.entry)
        closed.append((ticks * self.tick_value_e4 - 2 * self.fee_e4, self.position.opened))
        self.position = None

    def _rest_fills(self, closed: list[tuple[int, int]]) -> None:
        bid, ask = self.touch()
        order = self.resting
        if order and ((order.side == 1 and ask <= order.price) or (order.side == -1 and bid >= order.price)):
            self.resting = None
            self._trade(order.side, order.price, order.sent, closed)

    def _flatten(self, closed: list[tuple[int, int]]) -> None:
        bid, ask = self.touch()
        self.resting = None
        if self.position:
            self._trade(-self.position.side, bid if self.position.side == 1 else ask, self.step, closed)

    def _arrives(self, action: int, closed: list[tuple[int, int]]) -> None:
        bid, ask = self.touch()
        if action == 7:
            self.resting = None
        elif action == 8:
            self._flatten(closed)
        elif action != 0:
            side = {1: 1, 3: 1, 5: 1, 2: -1, 4: -1, 6: -1}[action]
            if self.position and self.position.side == side:
                return
            self.resting = None
            if action in (1, 2):
                self._trade(side, ask if side == 1 else bid, self.step - 1, closed)
                return
            better = 1 if action in (5, 6) and ask - bid > 1 else 0
            price = bid + better if side == 1 else ask - better
            self.resting = Order(side=side, price=price, sent=self.step - 1)


@dataclass(frozen=True, kw_only=True)
class Tape:
    """Columns of a tape and the rows begin … end - 1 that are played; as the operator's Segment, in numpy."""

    book: Books
    ts: Times
    moved: Books
    day_ns: Times
    begin: int
    end: int


def features(tape: Tape, row: int, account: dict[str, int]) -> tuple[list[float], float]:
    """Features of one row for one account (keys as in `Trader.state`) in float64, and dt in seconds."""
    was = row if row == tape.begin else row - 1
    now, past = (list(zip(*(side.tolist() for side in np.split(tape.book[r], 4)), strict=True)) for r in (row, was))
    bp, bs, ap, asz = zip(*now, strict=True)
    mid2, spread = bp[0] + ap[0], ap[0] - bp[0]
    levels = []
    for b, q, a, r in now:
        near = [2 if (p, z) == (0, 0) else min(d, 64) / 32 for p, z, d in ((b, q, mid2 - 2 * b), (a, r, 2 * a - mid2))]
        levels += [math.log1p(q) / 8, math.log1p(r) / 8, *near]
    flows = [_flow(*pair) for pair in zip(now, past, strict=True)]
    tilt = _quotient(bs[0] - asz[0], bs[0] + asz[0])
    gap_ns = int(tape.ts[row]) - int(tape.ts[was])
    angle = 2 * math.pi * int(tape.day_ns[row]) / 86400e9
    pos, pending = account["pos"], account["pending"]
    side = {0: 0, 7: 0, 8: -pos}.get(pending, 1 if pending in (1, 3, 5) else -1)
    scalars = [
        max(-16, min(16, mid2 - past[0][0] - past[0][2])) / 8,
        spread * tilt / 2,
        math.log1p(spread) / 2,
        tilt,
        _quotient(sum(bs) - sum(asz), sum(bs) + sum(asz)),
        flows[0],
        sum(flows) / len(flows),
        math.log1p(gap_ns / 1e6) / 8,
        math.sin(angle),
        math.cos(angle),
        math.log1p(int(tape.moved[row])) / 8,
        (row - tape.begin) / (tape.end - 1 - tape.begin),
        float(pos),
        max(-64, min(64, pos * (mid2 - 2 * account["entry_ticks"]))) / 32,
        math.log1p(account["hold_steps"]) / 8 if pos else 0.0,
        side + account["rest_side"] / 4,
    ]
    return levels + scalars, min(max(gap_ns, 10**6), 10**10) / 1e9


def frd_label(book: Books, end: int, row: int, horizon: int) -> int:
    """The bin of the mid's move from `row` to `row + horizon`, -1 past the end."""
    if row + horizon >= end:
        return -1
    mids = [Fraction(int(book[r, 0]) + int(book[r, book.shape[1] // 2]), 2) for r in (row, row + horizon)]
    return max(-10, min(10, round(mids[1] - mids[0]))) + 10


def reward(equity_delta: int, fills: int, scale: float, tick_value_e4: int, fee_e4: int) -> tuple[float, float]:
    """Raw and shaped reward of one environment in float64."""
    raw = equity_delta / 2 - fills * fee_e4 / tick_value_e4
    return raw, max(-1.0, min(1.0, scale * raw))


def _quotient(a: int, b: int) -> float:
    return a / b if b else 0.0


def _flow(now: Level, was: Level) -> float:
    (b, q, a, r), (b0, q0, a0, r0) = now, was
    if any(pair == (0, 0) for pair in ((b, q), (a, r), (b0, q0), (a0, r0))):
        return 0.0
    bid = q if b > b0 else -q0 if b < b0 else q - q0
    ask = r if a < a0 else -r0 if a > a0 else r - r0
    return _quotient(bid - ask, q + q0 + r + r0)
