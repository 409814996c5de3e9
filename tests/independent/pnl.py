"""Counts a run's trades and money again, from its Parquet dumps alone; nothing of foxflow is imported.

    python tests/independent/pnl.py RECORD [TAPE_RECORD]

RECORD is of a whole run in which every step was dumped, 250 of them with --quick:

    foxflow run --seed 42 --quick --data FILE --dump rl --dump-steps 0:250

A row that a run moves to and never stands on again, such as the last one of the evaluation, is in no `lob_book`. It is
read from the tape: in RECORD itself where group X was dumped at step 0 (`--dump all`, for small runs), or in
TAPE_RECORD, the same command with `--stop-at 1 --dump all --dump-steps 0:1` in place of its dumps.

Exit code: 0 where all is equal, 1 where anything differs, 2 where the dumps don't suffice.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from dumps import NotEnough, Run, read

BUY, SELL, JOIN_BID, JOIN_ASK, IMPROVE_BID, IMPROVE_ASK, CANCEL, FLATTEN = range(1, 9)
SIDE = {BUY: 1, JOIN_BID: 1, IMPROVE_BID: 1, SELL: -1, JOIN_ASK: -1, IMPROVE_ASK: -1}


@dataclass
class Desk:
    """One environment's orders and position. Prices are ticks."""

    position: int = 0
    entry: int = 0
    waiting: tuple[int, int] | None = None
    in_flight: int = 0
    closed: list[int] = field(default_factory=list)

    def deal(self, side: int, price: int) -> None:
        if self.position:
            self.closed.append(self.position * (price - self.entry))
        else:
            self.entry = price
        self.position += side

    def out(self, bid: int, ask: int) -> None:
        self.waiting = None
        if self.position:
            self.deal(-self.position, bid if self.position > 0 else ask)

    def step(self, action: int, touch: tuple[int, int], last: bool) -> int | None:
        """Move to the next row, whose touch is given; ticks gained where a round trip ended in it."""
        bid, ask = touch
        before = len(self.closed)
        if self.waiting is not None:
            side, price = self.waiting
            if (side > 0 and ask <= price) or (side < 0 and bid >= price):
                self.waiting = None
                self.deal(side, price)
        order, self.in_flight = self.in_flight, 0 if last else action
        if last or order == FLATTEN:
            self.out(bid, ask)
        elif order == CANCEL:
            self.waiting = None
        elif order and self.position != SIDE[order]:
            self.send(order, bid, ask)
        if len(self.closed) > before + 1:
            raise ValueError("two round trips ended in one step")
        return self.closed[-1] if len(self.closed) > before else None

    def send(self, order: int, bid: int, ask: int) -> None:
        side = SIDE[order]
        self.waiting = None
        if order in (BUY, SELL):
            self.deal(side, ask if side > 0 else bid)
            return
        better = order in (IMPROVE_BID, IMPROVE_ASK) and ask - bid >= 2
        self.waiting = (side, (bid if side > 0 else ask) + side * better)


@dataclass
class Count:
    """Round trips as (step, environment, ticks), in that order, and what the dumps say otherwise."""

    trades: list[tuple[int, int, int]] = field(default_factory=list)
    departures: list[str] = field(default_factory=list)


def replay(run: Run, phase: str) -> Count:
    """Play a phase again from its first rows and its actions."""
    first, begin, end = (0, 0, run.cut) if phase == "train" else (run.train_steps, run.cut, run.rows)
    count, held = Count(), run.steps[phase]
    if not held:
        return count
    at = held[0]["lob_cursor"].tolist()
    desks = [Desk() for _ in at]
    for t, step in enumerate(held, first):
        for b, (desk, action) in enumerate(zip(desks, step["action"].tolist(), strict=True)):
            here = at[b] + 1
            last = here == end - 1
            gain = desk.step(action, run.touches.at(here), last)
            if gain is not None:
                count.trades.append((t, b, gain))
            found = (step["lob_cursor"][b], step["done"][b], step["wrap"][b], step["trade_pnl_e4"][b])
            ours = (at[b], gain is not None, last, (gain or 0) * run.tick_e4)
            if tuple(map(int, found)) != tuple(map(int, ours)):
                names = "row, done, wrap, pnl_e4"
                count.departures.append(f"{phase} step {t}, environment {b}: {names} {ours}, dumped {found}")
            at[b] = begin + run.window - 1 if last else here
    if phase == "eval":
        for b, desk in enumerate(desks):
            if desk.position:
                desk.out(*run.touches.at(at[b]))
                count.trades.append((first + len(held), b, desk.closed[-1]))
    return count


def figures(count: Count, tick_e4: int) -> dict[str, Any]:
    """The summary of some trades; money as a whole number of 1e-4 USD."""
    gains = np.array([ticks for _, _, ticks in sorted(count.trades)], np.int64) * tick_e4
    won, lost = int(gains[gains > 0].sum()), -int(gains[gains < 0].sum())
    sums = np.concatenate([[0], np.cumsum(gains)])
    return {
        "n_trades": len(gains),
        "total_pnl_usd": int(gains.sum()),
        "win_rate": int((gains > 0).sum()) / len(gains) if len(gains) else None,
        "profit_factor": won / lost if lost else None,
        "max_drawdown_usd": int((np.maximum.accumulate(sums) - sums).max()),
    }


def compared(run: Run) -> tuple[list[tuple[str, Any, Any]], list[str]]:
    """(figure, counted here, the summaries' word) of each figure, and where the dumps themselves say otherwise."""
    train, evaluation = replay(run, "train"), replay(run, "eval")
    learnt, judged = figures(train, run.tick_e4), figures(evaluation, run.tick_e4)
    said = _summary(run.folder / "alpha_rl_train_summary.json")
    lines = [
        ("train n_done", learnt["n_trades"], said["n_done"]),
        ("train n_trades_train", learnt["n_trades"], said["n_trades_train"]),
        ("train total_pnl_usd", _money(learnt["total_pnl_usd"]), said["total_pnl_usd"]),
    ]
    said = _summary(run.folder / "eval_summary.json")
    lines += [
        ("eval n_eval_trades_seen", judged["n_trades"], said["n_eval_trades_seen"]),
        ("eval n_trades", judged["n_trades"], said["n_trades"]),
        ("eval total_pnl_usd", _money(judged["total_pnl_usd"]), said["total_pnl_usd"]),
        ("eval win_rate", judged["win_rate"], said["win_rate"]),
        ("eval profit_factor", judged["profit_factor"], said["profit_factor"]),
        ("eval max_drawdown_usd", _money(judged["max_drawdown_usd"]), said["max_drawdown_usd"]),
    ]
    departures = train.departures + evaluation.departures
    if run.touches.contradictions:
        departures.append(f"{run.touches.contradictions} books differ from another book of their row")
    return lines, departures


def _summary(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise NotEnough(f"{path.name} isn't there: the run didn't end")
    return dict(json.loads(path.read_text(), parse_float=Decimal))


def _money(e4: int) -> Decimal:
    return Decimal(e4) / 10_000


def same(ours: object, said: object) -> bool:
    """Equal exactly: money and counts as decimals, a ratio as the float64 that the decimal stands for."""
    return ours == (float(said) if isinstance(ours, float) and isinstance(said, Decimal) else said)


def main(arguments: list[str]) -> int:
    if len(arguments) not in (1, 2):
        print("usage: pnl.py RECORD [TAPE_RECORD]", file=sys.stderr)
        return 2
    record, *tape = map(Path, arguments)
    try:
        lines, departures = compared(read(record, tape[0] if tape else None))
    except NotEnough as lack:
        print(f"{record.name}: {lack}", file=sys.stderr)
        return 2
    print(f"{'':26}{'counted here':>22}{'summary':>22}")
    for name, ours, said in lines:
        print(f"{name:26}{ours!s:>22}{said!s:>22}{'' if same(ours, said) else '  DIFFERS'}")
    for line in departures[:5]:
        print(line)
    print(f"{len(departures)} of the dumped steps' rows say otherwise")
    return int(bool(departures) or not all(same(ours, said) for _, ours, said in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
