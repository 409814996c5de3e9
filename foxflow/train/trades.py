"""Statistics of finished trades, exact in integers and float64 in one order; undefined is null, with a reason."""

from __future__ import annotations

import math
from dataclasses import dataclass

from foxflow.market.instrument import Instrument


@dataclass(frozen=True, slots=True)
class Trade:
    """One round trip: the step it closed in, its environment, and its profit in 1e-4 of the currency."""

    close_step: int
    env: int
    pnl_e4: int


def statistics(trades: list[Trade], env_ns: int, instrument: Instrument) -> dict[str, object]:
    """Summarise trades in the order (close_step, env).

    Args:
        trades: in any order.
        env_ns: simulated time, summed over the environments.
        instrument: gives money and session.

    Returns:
        The fields of docs/trainer.md, `undefined` holding the reason of each null.
    """
    pnl_e4 = [t.pnl_e4 for t in sorted(trades, key=lambda t: (t.close_step, t.env))]
    n, pnl = len(pnl_e4), [x / 10_000 for x in pnl_e4]
    gains, losses = sum(x for x in pnl_e4 if x > 0), -sum(x for x in pnl_e4 if x < 0)
    undefined: dict[str, str] = {}
    values: dict[str, object] = {
        "n_trades": n,
        "total_pnl_usd": sum(pnl_e4) / 10_000,
        "win_rate": sum(x > 0 for x in pnl_e4) / n if n else None,
        "profit_factor": gains / losses if losses else None,
        "max_drawdown_usd": _drawdown(pnl_e4) / 10_000,
        "sharpe_ann": None,
    }
    if not n:
        undefined["win_rate"] = "no trade"
    if not losses:
        undefined["profit_factor"] = "no losing trade"
    years = env_ns / 1e9 / (instrument.sessions_per_year * instrument.session_seconds)
    if n < 2:
        undefined["sharpe_ann"] = "fewer than two trades"
    elif min(pnl_e4) == max(pnl_e4):
        undefined["sharpe_ann"] = "all trades alike: no deviation"
    elif years <= 0:
        undefined["sharpe_ann"] = "no time passed"
    else:
        mean = math.fsum(pnl) / n
        deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in pnl) / (n - 1))
        values["sharpe_ann"] = mean / deviation * math.sqrt(n / years)
    values["undefined"] = undefined
    return values


def _drawdown(pnl_e4: list[int]) -> int:
    """The deepest fall of the running sum below its highest point; the start at 0 is a point."""
    total = peak = worst = 0
    for x in pnl_e4:
        total += x
        peak = max(peak, total)
        worst = max(worst, peak - total)
    return worst
