"""Orders and money by hand: short tapes of one level whose fills and profits can be read off."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from bits import DEVICES, assert_close, clock
from ops.worlds import ES, STOCK, play, quotes, segment, state, tape

from foxflow.ops import world
from foxflow.ops.world_state import Account, Step
from foxflow.reference import world as reference


def test_buying_at_the_ask_and_selling_at_the_bid_loses_one_tick():
    steps, account = play(quotes(*[(100, 101)] * 5), [1, 2, 0])
    assert [s["done"] for s in steps] == [0, 0, 1]
    assert [s["fills"] for s in steps] == [0, 1, 1]
    assert [s["trade_pnl_e4"] for s in steps] == [0, 0, -125000]
    assert [s["trade_open_step"] for s in steps] == [-1, -1, 0]
    assert [s["equity_half_ticks"] for s in steps] == [0, -1, -2]
    assert [s["equity_delta"] for s in steps] == [0, -1, -1]
    assert state(account)["open_step"] == [-1]
    assert state(account)["entry_ticks"] == [0]


def test_fees_of_both_sides_come_off_the_profit_but_not_off_the_cash():
    steps, account = play(quotes(*[(100, 101)] * 3, (110, 111), (110, 111)), [1, 8, 0], STOCK)
    assert steps[2]["trade_pnl_e4"] == 9 * 100 - 2 * 35
    assert int(account.cash_half_ticks) == 18


def test_no_trade_can_close_before_step_two():
    on = segment(tape(64, 1, 3))
    pairs = torch.cartesian_prod(torch.arange(60), torch.arange(9), torch.arange(9))
    account = Account.flat(pairs[:, 0].contiguous())
    done = []
    for step in range(3):
        action = pairs[:, 1 + min(step, 1)].int()
        done.append(int(world.env_step(on, account, ES, action, clock(step)).done.sum()))
    assert done[:2] == [0, 0]
    assert done[2] > 0


def test_flatten_closes_at_the_touch_and_cancels():
    rows = quotes(*[(100, 101)] * 3, (99, 101), (98, 100), (110, 111), (110, 111))
    steps, account = play(rows, [1, 4, 8, 0, 0])
    assert [s["fills"] for s in steps] == [0, 1, 0, 1, 0]
    assert steps[3]["trade_pnl_e4"] == (98 - 101) * 125000
    assert int(account.rest_side) == 0
    steps, _ = play(rows, [8, 8, 8])
    assert sum(s["fills"] for s in steps) == 0, "nothing to flatten"


def test_a_short_is_flattened_at_the_ask():
    steps, _ = play(quotes(*[(100, 101)] * 3, (97, 98), (97, 98)), [2, 8, 0])
    assert steps[2]["trade_pnl_e4"] == 2 * 125000


@pytest.mark.parametrize(
    ("action", "ask", "price"),
    [
        (3, 101, 100),
        (5, 101, 100),
        (5, 102, 101),
        (5, 104, 101),
        (4, 102, 102),
        (6, 101, 101),
        (6, 102, 101),
        (6, 104, 103),
    ],
)
def test_improving_gains_one_tick_where_the_spread_has_room(action, ask, price):
    _, account = play(quotes((100, 101), (100, ask), (100, ask), (100, ask)), [action, 0])
    assert int(account.rest_px_ticks) == price
    assert int(account.rest_side) == (1 if action % 2 else -1)
    assert int(account.rest_step) == 0


def test_a_resting_buy_fills_at_its_own_price_when_the_ask_reaches_it():
    rows = quotes(*[(100, 101)] * 4, (98, 99), (98, 99))
    steps, account = play(rows, [3, 0, 0, 0])
    assert [s["fills"] for s in steps] == [0, 0, 0, 1]
    assert int(account.entry_ticks) == 100
    assert int(account.open_step) == 0, "the step whose action sent the order"
    assert int(account.hold_steps) == 0
    assert steps[3]["equity_half_ticks"] == 2 * (-100) + 98 + 99


def test_a_touch_equal_to_the_price_fills():
    steps, _ = play(quotes(*[(100, 101)] * 3, (99, 100), (99, 100)), [3, 0, 0])
    assert steps[2]["fills"] == 1
    steps, _ = play(quotes(*[(100, 101)] * 3, (101, 102), (101, 102)), [4, 0, 0])
    assert steps[2]["fills"] == 1


def test_a_new_order_replaces_the_resting_one():
    flat = [(100, 101)] * 4
    _, account = play(quotes(*flat, (100, 101)), [3, 4, 0])
    assert (int(account.rest_side), int(account.rest_px_ticks), int(account.rest_step)) == (-1, 101, 1)
    steps, account = play(quotes(*flat, (90, 91), (90, 91)), [3, 1, 0, 0])
    assert [s["fills"] for s in steps] == [0, 0, 1, 0], "the replaced buy is gone when the ask comes down"
    assert int(account.rest_side) == 0
    assert (int(account.pos), int(account.entry_ticks)) == (1, 101)


def test_cancel_drops_the_resting_order_alone():
    steps, account = play(quotes(*[(100, 101)] * 4, (90, 91), (90, 91)), [3, 7, 0, 0])
    assert sum(s["fills"] for s in steps) == 0
    assert state(account)["rest_side"] == [0]
    assert state(account)["rest_px_ticks"] == [0]
    assert state(account)["rest_step"] == [-1]


@pytest.mark.parametrize("beyond", [1, 3, 5])
def test_an_order_beyond_one_lot_is_ignored_wholly(beyond):
    """The resting sell stays, the cash stays."""
    steps, account = play(quotes(*[(100, 101)] * 6), [1, 4, beyond, 0])
    assert [s["fills"] for s in steps] == [0, 1, 0, 0]
    assert (int(account.pos), int(account.rest_side), int(account.rest_step)) == (1, -1, 1)


def test_a_close_and_an_opening_in_one_step_are_one_done():
    """A resting sell closes the long; the market sell that arrives then opens a short."""
    rows = quotes(*[(100, 101)] * 4, (101, 102), (101, 102))
    steps, account = play(rows, [1, 4, 2, 0])
    assert steps[3]["fills"] == 2
    assert steps[3]["done"] == 1
    assert steps[3]["trade_pnl_e4"] == 0
    assert (int(account.pos), int(account.entry_ticks), int(account.open_step)) == (-1, 101, 2)
    assert int(account.hold_steps) == 0


def test_hold_steps_count_to_the_close_and_then_restart():
    on, account, held = quotes(*[(100, 101)] * 9), Account.flat(torch.zeros(1, dtype=torch.int64)), []
    for step, action in enumerate([1, 0, 0, 2, 0, 0]):
        world.env_step(on, account, ES, torch.tensor([action], dtype=torch.int32), clock(step))
        held.append(int(account.hold_steps))
    assert held == [0, 0, 1, 2, 3, 0]


def test_the_last_row_closes_at_the_touch_and_drops_every_order():
    steps, account = play(quotes((100, 101), (100, 101), (100, 101), (95, 96)), [1, 4, 3])
    assert [s["wrap"] for s in steps] == [0, 0, 1]
    assert steps[2]["done"] == 1
    assert steps[2]["trade_pnl_e4"] == -6 * 125000
    kept = {name: value[0] for name, value in state(account).items()}
    assert kept == {
        "cursor": 3, "pos": 0, "entry_ticks": 0, "cash_half_ticks": -12, "pending": 0, "rest_side": 0,
        "rest_px_ticks": 0, "rest_step": -1, "open_step": -1, "hold_steps": 1,
    }  # fmt: skip
    steps, _ = play(quotes((100, 101), (100, 101), (100, 101)), [1, 0])
    assert [s["fills"] for s in steps] == [0, 0], "nothing arrives at the last row"


@pytest.mark.parametrize("device", DEVICES)
def test_reward_takes_the_fees_that_cash_does_not(device):
    rng = np.random.default_rng(5)
    delta, fills = rng.integers(-9, 9, 64), rng.integers(0, 3, 64).astype(np.int32)
    one = torch.zeros(64, dtype=torch.int64, device=device)
    step = Step(
        fills=torch.from_numpy(fills).to(device), done=one.byte(), wrap=one.byte(), trade_pnl_e4=one,
        trade_open_step=one.int(), equity_half_ticks=one, equity_delta=torch.from_numpy(delta).to(device),
    )  # fmt: skip
    isv = torch.zeros(16, device=device)
    isv[4] = 0.5
    raw, shaped = world.reward(step, isv, STOCK)
    want = torch.tensor([reference.reward(int(d), int(f), 0.5, 100, 35) for d, f in zip(delta, fills, strict=True)])
    assert_close(raw, want[:, 0], rtol=1e-7)
    assert_close(shaped, want[:, 1], rtol=1e-7)
    assert float(shaped.max()) == 1.0
    assert float(shaped.min()) == -1.0
