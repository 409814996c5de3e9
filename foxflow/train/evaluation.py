"""Greedy evaluation: every trade that closes, and the positions closed at the touch when it ends."""

from __future__ import annotations

import json

from torch import Tensor

from foxflow.config import Config
from foxflow.market.environment import Environment, Moved
from foxflow.market.instrument import Instrument
from foxflow.ops.world_state import Segment
from foxflow.train.trades import Trade, statistics


class Evaluation:
    """Collects trades and simulated time over the evaluation steps.

    Args:
        segment: the unseen rows.
        instrument: gives money and session.
    """

    def __init__(self, segment: Segment, instrument: Instrument) -> None:
        self._segment, self._instrument = segment, instrument
        self._trades: list[Trade] = []
        self._env_ns = self._steps = 0

    def note(self, step: int, cursor: Tensor, moved: Moved) -> None:
        """Log a step.

        Args:
            step: its number.
            cursor: int64 [B], the rows reached, before any jump.
            moved: what happened.
        """
        self._steps += 1
        ts = self._segment.ts
        self._env_ns += int((ts[cursor] - ts[cursor - 1]).sum())
        done, pnl = moved.step.done.tolist(), moved.step.trade_pnl_e4.tolist()
        self._trades += [Trade(step, b, pnl[b]) for b, closed in enumerate(done) if closed]

    def close(self, step: int, env: Environment) -> None:
        """Close what is still open at the touch of each environment's row."""
        instrument, levels = self._instrument, self._segment.book.shape[1] // 4
        book = self._segment.book[env.account.cursor]
        bid, ask = book[:, 0].tolist(), book[:, 2 * levels].tolist()
        pos, entry = env.account.pos.tolist(), env.account.entry_ticks.tolist()
        for b, side in enumerate(pos):
            if side:
                price = bid[b] if side > 0 else ask[b]
                gain = side * (price - entry[b]) * instrument.tick_value_e4
                self._trades.append(Trade(step, b, gain - 2 * instrument.fee_e4))

    def summary(self, config: Config) -> bytes:
        """eval_summary.json: keys sorted, no time, path or host."""
        n, found = len(self._trades), statistics(self._trades, self._env_ns, self._instrument)
        if not self._steps:
            found["undefined"] = {"n_trades": "no evaluation step ran"}
        values = found | {
            "b_size": config.shape.B,
            "n_eval_trades_seen": n,
            "n_pre_eval_trades_wrapped": 0,
            "n_eval_trades_dropped": 0,
        }
        return (json.dumps(values, sort_keys=True, indent=1, allow_nan=False) + "\n").encode()
