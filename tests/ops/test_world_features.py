"""What the agent sees and is judged by: features and windows against float64, labels against fractions."""

from __future__ import annotations

import pytest
import torch
from bits import DEVICES, assert_bit_equal, assert_close
from ops.worlds import quotes, segment, situation, state, tape

from foxflow.ops import world
from foxflow.ops.world_state import Account, Segment
from foxflow.reference import world as reference


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
