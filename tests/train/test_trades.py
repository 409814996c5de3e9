"""Statistics of trades against the table of docs/trainer.md and figures worked out by hand."""

from __future__ import annotations

import json
import math
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from train.running import changed

from foxflow.market.instrument import ES, US_EQUITY
from foxflow.train.trades import Trade, statistics

TICK_E4 = 125_000
SESSION_NS = ES.session_seconds * 10**9


def of(*pnl_e4: int, env_ns: int = SESSION_NS) -> dict[str, object]:
    return statistics([Trade(step, 0, pnl) for step, pnl in enumerate(pnl_e4)], env_ns, ES)


def test_no_trade_is_a_total_of_zero_and_no_ratio() -> None:
    assert of() == {
        "n_trades": 0,
        "total_pnl_usd": 0.0,
        "win_rate": None,
        "profit_factor": None,
        "max_drawdown_usd": 0.0,
        "sharpe_ann": None,
        "undefined": {
            "win_rate": "no trade",
            "profit_factor": "no losing trade",
            "sharpe_ann": "fewer than two trades",
        },
    }


def test_one_losing_tick_draws_down_by_itself_and_has_no_sharpe() -> None:
    """The note's trade: its floor of -359035207680.0 and its drawdown of 0 are not ratios of anything."""
    assert of(-TICK_E4) == {
        "n_trades": 1,
        "total_pnl_usd": -12.5,
        "win_rate": 0.0,
        "profit_factor": 0.0,
        "max_drawdown_usd": 12.5,
        "sharpe_ann": None,
        "undefined": {"sharpe_ann": "fewer than two trades"},
    }


def test_one_winning_tick_has_no_drawdown_and_no_profit_factor() -> None:
    found = of(TICK_E4)
    assert (found["win_rate"], found["max_drawdown_usd"], found["profit_factor"]) == (1.0, 0.0, None)
    assert found["undefined"] == {"profit_factor": "no losing trade", "sharpe_ann": "fewer than two trades"}


def test_several_trades_worked_out_by_hand() -> None:
    """+25, -12.5, 0, -37.5, +50: sums 25, 12.5, 12.5, -25, 25, so the deepest fall is 50; 75 won, 50 lost."""
    found = of(250_000, -125_000, 0, -375_000, 500_000)
    assert (found["n_trades"], found["total_pnl_usd"], found["win_rate"]) == (5, 25.0, 0.4)
    assert (found["profit_factor"], found["max_drawdown_usd"], found["undefined"]) == (1.5, 50.0, {})
    pnl = [25, -12.5, 0, -37.5, 50]
    assert found["sharpe_ann"] == pytest.approx(fmean(pnl) / stdev(pnl) * math.sqrt(5 * 252), rel=1e-14)


def test_trades_are_taken_by_close_step_then_environment() -> None:
    """Taken as given, the two wins would come first and the drawdown would start from their sum."""
    trades = [Trade(2, 0, 30_000), Trade(1, 7, 20_000), Trade(1, 3, -40_000), Trade(0, 9, -10_000)]
    assert statistics(trades, SESSION_NS, ES)["max_drawdown_usd"] == 5.0
    assert statistics(trades, SESSION_NS, ES) == statistics(trades[::-1], SESSION_NS, ES)


def test_a_year_is_that_of_the_instrument() -> None:
    trades = [Trade(0, 0, -100), Trade(1, 0, 300)]
    es, equity = (statistics(trades, SESSION_NS, i)["sharpe_ann"] for i in (ES, US_EQUITY))
    assert isinstance(es, float)
    assert isinstance(equity, float)
    assert es / equity == pytest.approx(math.sqrt(82_800 / 23_400), rel=1e-14)


def test_trades_that_are_all_alike_have_no_sharpe_instead_of_an_endless_one() -> None:
    assert of(TICK_E4, TICK_E4)["undefined"] == {
        "profit_factor": "no losing trade",
        "sharpe_ann": "all trades alike: no deviation",
    }


def test_trades_in_no_time_have_no_sharpe() -> None:
    found = of(TICK_E4, -TICK_E4, env_ns=0)
    assert (found["sharpe_ann"], found["undefined"]) == (None, {"sharpe_ann": "no time passed"})


@given(st.lists(st.integers(-(10**12), 10**12), max_size=30), st.integers(0, 10**18))
def test_every_null_has_its_reason_and_no_value_is_nan_or_endless(pnl: list[int], env_ns: int) -> None:
    found = of(*pnl, env_ns=env_ns)
    json.dumps(found, allow_nan=False)
    assert found["undefined"] == {name: reason for name, reason in found["undefined"].items() if found[name] is None}  # type: ignore[attr-defined]
    assert {name for name, value in found.items() if value is None} == set(found["undefined"])  # type: ignore[call-overload]


def test_a_loss_that_is_not_finite_is_null_in_the_summary_and_listed() -> None:
    found = changed(lambda made: made.learner.weights["iqn.o_b"].fill_(float("nan")))[1]
    summary = json.loads(found.summaries(None)["alpha_rl_train_summary.json"])
    assert summary["loss"]["iqn"] is None
    assert summary["nonfinite"] == ["loss.iqn", "loss.total"]
