"""The world: exact against an independent ledger, the same bits anywhere, mistakes named."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from bits import DEVICES, assert_bit_equal, bits, clock, fresh_process, sha
from hypothesis import given, settings
from hypothesis import strategies as st
from ops.worlds import ES, STOCK, quotes, segment, situation, state, tape

from foxflow.errors import Mistake
from foxflow.ops import world
from foxflow.ops.world_state import Account, Contract, Step
from foxflow.reference import world as reference

OPS = torch.ops.foxflow


def drive(
    of: reference.Tape, contract: Contract, batch: int, steps: int, device: str, seed: int = 0, ledgers_on=None
) -> dict[str, int]:
    """Random actions through operator and ledger side by side, wraps included; counts what happened."""
    rng = np.random.default_rng(seed)
    start, on = of.begin + 3, segment(of, device)
    cursor = torch.from_numpy(rng.integers(of.begin, of.end - 4, batch)).to(device)
    account = Account.flat(cursor)
    ledgers = [
        reference.Trader(
            book=of.book if ledgers_on is None else ledgers_on,
            last=of.end - 1,
            row=int(row),
            tick_value_e4=contract.tick_value_e4,
            fee_e4=contract.fee_e4,
        )
        for row in cursor.tolist()
    ]
    seen = {"fills": 0, "done": 0, "wrap": 0, "both": 0}
    for step in range(steps):
        action = rng.choice(9, batch, p=[0.3, 0.07, 0.07, 0.12, 0.12, 0.12, 0.12, 0.04, 0.04]).astype(np.int32)
        out = world.env_step(on, account, contract, torch.from_numpy(action).to(device), clock(step, device))
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
    """The twin of the drive: a ledger whose tape differs in one price must not agree."""
    of = tape(300, 2)
    book = of.book.copy()
    book[150, 0] -= 1
    with pytest.raises(AssertionError):
        drive(of, ES, 32, 300, "cpu", ledgers_on=book)


def everything(device: str = "cpu") -> str:
    """One digest of all operators over a batch large enough to be split among threads."""
    _, on, account = situation(10, 2048, device)
    account.cursor.clamp_(max=170)
    window = torch.zeros(2048, 4, on.features, device=device)
    flags = torch.arange(2048, device=device)
    isv, kept = torch.full((16,), 0.5, device=device), []
    for step in range(3):
        out = world.env_step(on, account, STOCK, (flags % 9).int(), clock(step, device))
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
        (OPS.env_step, (on.book, on.end, clock(3, device), 100, 35, action, *held)),
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
        world.env_step(on, account, ES, two, clock(0))
    with pytest.raises(Mistake, match=r"step must be in \[0, 2147483648\), got -1"):
        world.env_step(on, account, ES, two * 0, clock(-1))
    with pytest.raises(Mistake, match="cursor_B must lie in 0 to 2, got 3"):
        world.env_step(on, Account.flat(torch.tensor([3, 0])), ES, two * 0, clock(0))
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
        world.reward(world.env_step(on, account, ES, flags.int(), clock(0)), torch.zeros(3), ES)
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
