"""The world: orders and money exact against an independent ledger, features against float64, the same bits anywhere."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from bits import DEVICES, assert_bit_equal, assert_close, bits, fresh_process, sha
from hypothesis import given, settings
from hypothesis import strategies as st

from foxflow.errors import Mistake
from foxflow.ops import world
from foxflow.ops.world_state import Account, Contract, Segment, Step
from foxflow.reference import world as reference

ES = Contract(tick_value_e4=125000, fee_e4=0)
STOCK = Contract(tick_value_e4=100, fee_e4=35)
OPS = torch.ops.foxflow


def tape(rows: int, levels: int, seed: int = 0, *, begin: int = 0, end: int | None = None) -> reference.Tape:
    """A random walk with spreads 1 to 3, missing deeper levels, equal times, long gaps and unmoved stretches."""
    rng = np.random.default_rng(seed)
    bid = 20000 + np.cumsum(rng.integers(-2, 3, rows))
    ask = bid + rng.integers(1, 4, rows)
    depth = np.arange(levels)
    sides = []
    for price in (bid[:, None] - depth, ask[:, None] + depth):
        missing = (rng.random((rows, levels)) < 0.2) & (depth > 0)
        sizes = rng.integers(1, 200, (rows, levels))
        sides += [np.where(missing, 0, price), np.where(missing, 0, sizes)]
    gaps = rng.choice([0, 1, 900_000, 10**9, 3 * 10**10], rows)
    ts = np.cumsum(gaps) + 1_700_000_000 * 10**9
    return reference.Tape(
        book=np.concatenate(sides, 1).astype(np.int32),
        ts=ts,
        moved=rng.integers(0, 50, rows).astype(np.int32),
        day_ns=ts % (86400 * 10**9),
        begin=begin,
        end=rows if end is None else end,
    )


def segment(of: reference.Tape, device: str = "cpu") -> Segment:
    columns = {name: torch.from_numpy(getattr(of, name)).to(device) for name in ("book", "ts", "moved", "day_ns")}
    return Segment(**columns, begin=of.begin, end=of.end)


def quotes(*pairs: tuple[int, int]) -> Segment:
    """A tape of one level from (bid, ask) pairs."""
    book = torch.tensor([[bid, 1, ask, 1] for bid, ask in pairs], dtype=torch.int32)
    n = len(pairs)
    zeros = torch.zeros(n, dtype=torch.int64)
    return Segment(book=book, ts=zeros, moved=zeros.int(), day_ns=zeros, begin=0, end=n)


def play(on: Segment, actions: list[int], contract: Contract = ES) -> tuple[list[dict[str, int]], Account]:
    """One environment from row 0; what each step did, as plain numbers."""
    account = Account.flat(torch.zeros(1, dtype=torch.int64))
    done = []
    for step, action in enumerate(actions):
        out = world.env_step(on, account, contract, torch.tensor([action], dtype=torch.int32), step)
        done.append({name: int(getattr(out, name)) for name in Step.__slots__})
    return done, account


def state(account: Account) -> dict[str, list[int]]:
    return {f.name: getattr(account, f.name).tolist() for f in dataclasses.fields(account)}


def drive(of: reference.Tape, contract: Contract, batch: int, steps: int, device: str, seed: int = 0) -> dict[str, int]:
    """Random actions through operator and ledger side by side, wraps included; counts what happened."""
    rng = np.random.default_rng(seed)
    start, on = of.begin + 3, segment(of, device)
    cursor = torch.from_numpy(rng.integers(of.begin, of.end - 4, batch)).to(device)
    account = Account.flat(cursor)
    ledgers = [
        reference.Trader(
            book=of.book, last=of.end - 1, row=int(row), tick_value_e4=contract.tick_value_e4, fee_e4=contract.fee_e4
        )
        for row in cursor.tolist()
    ]
    seen = {"fills": 0, "done": 0, "wrap": 0, "both": 0}
    for step in range(steps):
        action = rng.choice(9, batch, p=[0.3, 0.07, 0.07, 0.12, 0.12, 0.12, 0.12, 0.04, 0.04]).astype(np.int32)
        out = world.env_step(on, account, contract, torch.from_numpy(action).to(device), step)
        want = [ledger.advance(int(a)) for ledger, a in zip(ledgers, action, strict=True)]
        for name in Step.__slots__:
            assert getattr(out, name).tolist() == [row[name] for row in want], (step, name)
        states = [ledger.state() for ledger in ledgers]
        assert state(account) == {name: [row[name] for row in states] for name in states[0]}, step
        world.env_wrap(account, out.wrap, on, start)
        for ledger, row in zip(ledgers, want, strict=True):
            ledger.row = start if row["wrap"] else ledger.row
            seen["both"] += row["done"] and ledger.position is not None
            for name in ("fills", "done", "wrap"):
                seen[name] += row[name]
    return seen


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("contract", [ES, STOCK])
def test_thousands_of_random_steps_equal_the_ledger(device, contract):
    seen = drive(tape(300, 2, begin=17, end=260), contract, 32, 600, device)
    assert seen["wrap"] > 50
    assert seen["done"] > 500
    assert seen["both"] > 10, "a close and an opening in one step must have come up"


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(12, 40), fee=st.integers(0, 10**6))
def test_any_tape_and_fee_equals_the_ledger(seed, rows, fee):
    drive(tape(rows, 1, seed), Contract(tick_value_e4=1 + seed % 200000, fee_e4=fee), 8, 60, "cpu", seed)


def test_the_ledger_notices_one_wrong_tick():
    """The twin of the drive: a book that differs in one price must show."""
    of = tape(300, 2)
    book = of.book.copy()
    book[40:, 0] -= 1
    on, wrong = segment(of), segment(dataclasses.replace(of, book=book))
    results = []
    for which in (on, wrong):
        account = Account.flat(torch.tensor([38]))
        for step, action in enumerate((1, 8, 0)):
            out = world.env_step(which, account, ES, torch.tensor([action], dtype=torch.int32), step)
            results.append(int(out.equity_half_ticks))
    assert results[:3] != results[3:]


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
        done.append(int(world.env_step(on, account, ES, action, step).done.sum()))
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
        world.env_step(on, account, ES, torch.tensor([action], dtype=torch.int32), step)
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


def situation(levels: int, batch: int, device: str) -> tuple[reference.Tape, Segment, Account]:
    """Accounts in every kind of state, the first at the segment's first row and the last at its last."""
    of = tape(200, levels, 11, begin=40, end=180)
    rng = np.random.default_rng(12)
    rows = np.concatenate([[40, 179], rng.integers(40, 180, batch - 2)])
    account = Account.flat(torch.from_numpy(rows).to(device))
    draw = {"pos": (-1, 2), "pending": (0, 9), "rest_side": (-1, 2), "hold_steps": (0, 400)}
    for name, (low, high) in draw.items():
        getattr(account, name).copy_(torch.from_numpy(rng.integers(low, high, batch)))
    offset = torch.from_numpy(rng.integers(-40, 40, batch).astype(np.int32)).to(device)
    account.entry_ticks.copy_((segment(of, device).book[account.cursor, 0] + offset) * account.pos.abs())
    return of, segment(of, device), account


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("levels", "batch"), [(10, 128), (2, 8), (1, 9)])
def test_features_agree_with_float64(device, levels, batch):
    of, on, account = situation(levels, batch, device)
    obs, dt = world.features(on, account)
    rows = [{name: value[b] for name, value in state(account).items()} for b in range(batch)]
    want = [reference.features(of, row["cursor"], row) for row in rows]
    expected = torch.tensor([w[0] for w in want], dtype=torch.float64)
    assert obs.shape == (batch, 4 * levels + 16)
    for column in range(obs.shape[1]):
        assert float((obs[:, column].cpu().double() - expected[:, column]).abs().max()) < 1e-6, column
    assert_close(dt, torch.tensor([w[1] for w in want], dtype=torch.float64), rtol=1e-7)
    assert sorted(set(dt.tolist())) != [dt[0].item()]
    assert bool((expected[:, 4 * levels :].amax(0) > expected[:, 4 * levels :].amin(0)).all()), "every scalar varies"


def test_the_first_row_has_no_row_before_it():
    _, on, account = situation(2, 8, "cpu")
    obs, dt = world.features(on, account)
    scalar = obs[0, 8:]
    assert [float(scalar[j]) for j in (0, 5, 6, 7, 11)] == [0.0] * 5
    assert float(dt[0]) == float(torch.tensor(1e-3))
    assert float(obs[1, 8 + 11]) == 1.0


def test_a_missing_level_is_two_far_and_no_flow():
    book = torch.tensor([[100, 0, 5, 0, 101, 0, 5, 0]] * 2, dtype=torch.int32)
    book[1, 2] = 9
    zeros = torch.zeros(2, dtype=torch.int64)
    on = Segment(book=book, ts=zeros, moved=zeros.int(), day_ns=zeros, begin=0, end=2)
    obs, _ = world.features(on, Account.flat(torch.tensor([1])))
    assert obs[0, 4:8].tolist() == [0.0, 0.0, 2.0, 2.0]
    assert float(obs[0, 8 + 5]) == pytest.approx(4 / 24)
    assert float(obs[0, 8 + 6]) == pytest.approx(2 / 24)


def test_a_size_change_at_an_unchanged_price_is_flow():
    """The strict comparisons found in public code lose it."""
    book = torch.tensor([[100, 5, 101, 5], [100, 5, 101, 1]], dtype=torch.int32)
    zeros = torch.zeros(2, dtype=torch.int64)
    on = Segment(book=book, ts=zeros, moved=zeros.int(), day_ns=zeros, begin=0, end=2)
    obs, _ = world.features(on, Account.flat(torch.tensor([1])))
    assert float(obs[0, 4 + 5]) == 0.25


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("steps", [16, 4, 1])
def test_a_window_shifts_or_starts_anew_from_the_tape(device, steps):
    _, on, account = situation(2, 8, device)
    account.cursor.copy_(torch.arange(60, 68))
    obs, _ = world.features(on, account)
    old = torch.randn(8, steps, 24, generator=torch.Generator().manual_seed(1)).to(device)
    fresh = (torch.arange(8, device=device) % 2).byte()
    window = old.clone()
    world.window_push(window, obs, fresh, on, account.cursor)
    assert_bit_equal(window[::2], torch.cat([old[::2, 1:], obs[::2, None]], 1))
    for t in range(steps):
        seen, _ = world.features(on, Account.flat(account.cursor - steps + 1 + t))
        assert_bit_equal(window[1::2, t].contiguous(), seen[1::2].contiguous())


def test_a_window_never_reaches_before_its_segment():
    _, on, account = situation(1, 8, "cpu")
    account.cursor.fill_(on.begin + 1)
    window = torch.full((8, 4, 20), 7.0)
    world.window_push(window, torch.zeros(8, 20), torch.ones(8, dtype=torch.uint8), on, account.cursor)
    assert_bit_equal(window[:, 0].contiguous(), window[:, 2].contiguous())
    assert not torch.equal(window[:, 2], window[:, 3])


@pytest.mark.parametrize("device", DEVICES)
def test_labels_round_halves_to_even_and_stop_at_the_end(device):
    of = tape(120, 2, 4, begin=10, end=100)
    cursor = torch.arange(10, 100, device=device)
    labels = world.frd_labels(segment(of, device), cursor, (1, 8, 32))
    want = [[reference.frd_label(of.book, 100, row, h) for h in (1, 8, 32)] for row in range(10, 100)]
    assert labels.tolist() == want
    assert {-1, 9, 10, 20} <= set(labels.flatten().tolist())
    moves = quotes((0, 0), (0, 1), (1, 2), (2, 3), (-1, 0), (-2, -1), (50, 50), (-50, -50))
    at_zero = torch.zeros(1, dtype=torch.int64)
    assert world.frd_labels(moves, at_zero, (1, 2, 3, 4, 5, 6, 7)).tolist() == [[10, 12, 12, 10, 8, 20, 0]]


@pytest.mark.parametrize("device", DEVICES)
def test_books_cursors_and_carries_follow_the_wrap(device):
    _, on, account = situation(2, 8, device)
    assert_bit_equal(world.book_gather(on, account.cursor), on.book[account.cursor])
    wrap = (torch.arange(8, device=device) % 3 == 0).byte()
    before = account.cursor.clone()
    world.env_wrap(account, wrap, on, 55)
    assert_bit_equal(account.cursor, torch.where(wrap.bool(), 55, before))
    h = torch.randn(8, 5, generator=torch.Generator().manual_seed(2)).to(device)
    carry = torch.full((8, 5), -0.0, device=device)
    world.carry_update(carry, -h, wrap)
    assert_bit_equal(carry, torch.where(wrap.bool()[:, None], torch.zeros((), device=device), -h))


def everything(device: str = "cpu") -> str:
    """One digest of all operators over a batch large enough to be split among threads."""
    _, on, account = situation(10, 2048, device)
    account.cursor.clamp_(max=170)
    window = torch.zeros(2048, 4, on.features, device=device)
    flags = torch.arange(2048, device=device)
    isv, kept = torch.full((16,), 0.5, device=device), []
    for step in range(3):
        out = world.env_step(on, account, STOCK, (flags % 9).int(), step)
        obs, dt = world.features(on, account)
        world.window_push(window, obs, (flags % 5 == 0).byte(), on, account.cursor)
        kept += [*(getattr(out, n) for n in Step.__slots__), obs, dt, window.clone(), *world.reward(out, isv, STOCK)]
        kept += [getattr(account, f.name).clone() for f in dataclasses.fields(account)]
    carry = torch.zeros(2048, 40, device=device)
    world.carry_update(carry, window[:, 0, :40].contiguous(), out.wrap)
    world.env_wrap(account, (flags % 2).byte(), on, 50)
    kept += [carry, account.cursor, world.book_gather(on, account.cursor), world.frd_labels(on, account.cursor, (1, 8))]
    return sha(*kept)


@pytest.mark.parametrize("device", DEVICES)
def test_every_run_gives_the_cpus_bits(device):
    assert {everything(device) for _ in range(5)} == {everything()}


def test_threads_instruction_sets_and_fresh_processes_do_not_change_a_bit():
    code = (
        "import os; os.environ['FOXFLOW_SIMD'] = {!r}\n"
        "import torch; torch.set_num_threads({}); from ops.test_world import everything; print(everything())"
    )
    here = {everything() for _ in range(3)}
    assert here == {fresh_process(code.format("plain", 1)), fresh_process(code.format("avx2", 2))}


def test_one_flipped_bit_changes_the_digest():
    _, on, account = situation(2, 8, "cpu")
    obs, _ = world.features(on, account)
    twin = obs.clone()
    bits_of = bits(twin)
    bits_of[0] ^= 1
    assert sha(obs) != sha(bits_of)


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck(device):
    _, on, account = situation(2, 8, device)
    account.cursor.clamp_(max=170)
    raw = (on.book, on.ts, on.moved, on.day_ns, on.begin, on.end)
    held = [getattr(account, f.name) for f in dataclasses.fields(account)]
    action, wrap, isv = account.pending.clone(), (account.pending > 4).byte(), torch.ones(16, device=device)
    delta, h = account.cursor.clone(), torch.randn(8, 5, device=device)
    watched = (account.cursor, account.pos, account.entry_ticks, account.hold_steps, account.pending, account.rest_side)
    for op, args in (
        (OPS.book_gather, (on.book, account.cursor)),
        (OPS.features, (*raw, *watched)),
        (OPS.window_push, (torch.zeros(8, 4, 24, device=device), torch.ones(8, 24, device=device), wrap, *raw, delta)),
        (OPS.env_step, (on.book, on.end, 3, 100, 35, action, *held)),
        (OPS.reward, (delta, action, isv, 100, 35)),
        (OPS.env_wrap, (delta, wrap, 50)),
        (OPS.carry_update, (h.clone(), h, wrap)),
        (OPS.frd_labels, (on.book, on.end, account.cursor, [1, 8])),
    ):
        torch.library.opcheck(op.default, args)


@pytest.mark.parametrize("device", DEVICES)
def test_the_kernels_read_no_row_off_the_tape(device):
    _, on, _ = situation(2, 8, device)
    off = torch.tensor([-(2**40), 2**40], device=device)
    assert_bit_equal(OPS.book_gather(on.book, off), on.book[[0, -1]])
    assert OPS.frd_labels(on.book, on.end, off, [1]).tolist()[1] == [-1]


def test_rows_actions_and_steps_out_of_range_are_named():
    on, account = quotes(*[(100, 101)] * 4), Account.flat(torch.zeros(2, dtype=torch.int64))
    two = torch.tensor([0, 9], dtype=torch.int32)
    with pytest.raises(Mistake, match="action_B must lie in 0 to 8, got 9"):
        world.env_step(on, account, ES, two, 0)
    with pytest.raises(Mistake, match="step must be 0 to 2147483647, got -1"):
        world.env_step(on, account, ES, two * 0, -1)
    with pytest.raises(Mistake, match="cursor_B must lie in 0 to 2, got 3"):
        world.env_step(on, Account.flat(torch.tensor([3, 0])), ES, two * 0, 0)
    with pytest.raises(Mistake, match="cursor_B must lie in 0 to 3, got 4"):
        world.features(on, Account.flat(torch.tensor([4, 0])))
    with pytest.raises(Mistake, match="start must be 0 to 2, got 3"):
        world.env_wrap(account, torch.zeros(2, dtype=torch.uint8), on, 3)
    with pytest.raises(Mistake, match="horizons must be 1 to 8 numbers, each 1 or more, got \\(0,\\)"):
        world.frd_labels(on, account.cursor, (0,))


def test_tensors_that_do_not_fit_are_named():
    on, account = quotes(*[(100, 101)] * 4), Account.flat(torch.zeros(2, dtype=torch.int64))
    flags = torch.zeros(2, dtype=torch.uint8)
    with pytest.raises(Mistake, match=r"window_BTF must have 20 on axis 2 \(4 L \+ 16\), got 21"):
        world.window_push(torch.zeros(2, 3, 21), torch.zeros(2, 20), flags, on, account.cursor)
    with pytest.raises(Mistake, match="window_BTF must be contiguous with a row or more"):
        world.window_push(torch.zeros(2, 20, 3).transpose(1, 2), torch.zeros(2, 20), flags, on, account.cursor)
    with pytest.raises(Mistake, match="carry_BH must be contiguous"):
        world.carry_update(torch.zeros(5, 2).T, torch.zeros(2, 5), flags)
    with pytest.raises(Mistake, match="isv must have 16 on axis 0"):
        world.reward(world.env_step(on, account, ES, flags.int(), 0), torch.zeros(3), ES)
    with pytest.raises(Mistake, match="book must have 4 columns a level, got 6"):
        dataclasses.replace(on, book=torch.zeros(4, 6, dtype=torch.int32))
    with pytest.raises(Mistake, match="begin and end must hold 2 rows or more of the tape's 4, got 3, 4"):
        dataclasses.replace(on, begin=3)
    with pytest.raises(Mistake, match=r"ts must have 4 on axis 0 \(book's rows\), got 3"):
        dataclasses.replace(on, ts=on.ts[:3])
    with pytest.raises(Mistake, match="pos must be int32, got torch"):
        dataclasses.replace(account, pos=account.cursor)
    with pytest.raises(Mistake, match="cursor must be contiguous"):
        dataclasses.replace(account, cursor=torch.zeros(4, dtype=torch.int64)[::2])
    with pytest.raises(Mistake, match="tick_value_e4 must be at least 1, got 0"):
        Contract(tick_value_e4=0, fee_e4=0)
    with pytest.raises(Mistake, match="fee_e4 must be 0 or more, got -1"):
        Contract(tick_value_e4=1, fee_e4=-1)
