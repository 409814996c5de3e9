"""Synthetic tapes, their random stream and the planted rule."""

from __future__ import annotations

import numpy as np
import pytest

from foxflow.determinism.stream import Stream, mix64, scale
from foxflow.errors import Mistake
from foxflow.market.book import check_trainable, rows_since_moved, train_rows
from foxflow.market.simulate import BUY, SELL, planted_rule, profit_per_step, reverting, synthetic

MASK = (1 << 64) - 1


def test_splitmix_gives_the_published_first_words():
    """Seed 1234567 of the reference C program begins with these five."""
    gamma = 0x9E3779B97F4A7C15
    assert [mix64(1234567 + (i + 1) * gamma) for i in range(5)] == [
        6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821,
    ]  # fmt: skip


def test_xoshiro_gives_the_published_first_words():
    """State 1, 2, 3, 4 of xoshiro256++ begins with these, as its Rust twin tests."""
    stream = Stream(0, 0)
    stream._state = (1, 2, 3, 4)
    assert stream.words(5).tolist() == [41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205]


def test_a_stream_goes_on_where_it_stopped_and_differs_by_seed_and_id():
    whole = Stream(7, 0x0DA7).words(10).tolist()
    parts = Stream(7, 0x0DA7)
    assert [parts.next(), *parts.words(4).tolist(), *parts.words(5).tolist()] == whole
    firsts = {Stream(seed, use).next() for seed in range(64) for use in (0x0CE0, 0x0D00, 0x0DA7)}
    assert len(firsts) == 192


def test_draws_follow_their_rules_word_by_word():
    words = Stream(3, 5).words(1000)
    assert Stream(3, 5).below(7, 1000).tolist() == [((int(w) >> 32) * 7) >> 32 for w in words]
    uniform = Stream(3, 5).uniform(1000)
    assert uniform.dtype == np.float32
    assert [float(u) for u in uniform] == [(int(w) >> 40) * 2.0**-24 for w in words]
    assert Stream(3, 5).words32(1000).tolist() == [int(w) >> 32 for w in words]


def test_a_prng_word_of_zero_becomes_one():
    stream = Stream(0, 0)
    stream._state = (0, 0, 1, 0)
    assert stream.words32(1).tolist() == [1]
    assert scale(np.array([0, MASK], np.uint64), 200).tolist() == [0, 199]


def test_the_synthetic_book_follows_its_rules():
    tape = synthetic(42, 20_000, 5)
    bid, bid_sz, ask, ask_sz = (tape.book.reshape(-1, 4, 5)[:, i] for i in range(4))
    spread, move = ask[:, 0] - bid[:, 0], np.diff(bid[:, 0])
    assert set(np.unique(spread)) == {1, 2}
    assert abs((spread == 1).mean() - 0.75) < 0.02
    assert set(np.unique(move)) == {-1, 0, 1}
    assert abs((move == 0).mean() - 0.6) < 0.02
    assert abs((move == 1).mean() - 0.2) < 0.02
    assert (np.diff(bid, axis=1) == -1).all()
    assert (np.diff(ask, axis=1) == 1).all()
    assert (min(bid_sz.min(), ask_sz.min()), max(bid_sz.max(), ask_sz.max())) == (1, 200)
    assert (np.diff(tape.ts) == 10**9).all()


def test_the_same_seed_gives_the_same_tape_and_a_longer_one_begins_with_it():
    tape = synthetic(42, 500, 3)
    assert tape.book.tobytes() == synthetic(42, 900, 3).book[:500].tobytes()
    assert tape.book.tobytes() != synthetic(43, 500, 3).book.tobytes()
    assert tape.book[0].tolist() == FIRST_ROW


FIRST_ROW = [19999, 19998, 19997, 147, 35, 12, 20000, 20001, 20002, 105, 4, 162]


@pytest.mark.parametrize(("rows", "levels"), [(0, 3), (3, 0)])
def test_a_tape_without_rows_or_levels_is_refused(rows, levels):
    for draw in (synthetic, reverting):
        with pytest.raises(Mistake, match="must be 1 or more, got 0"):
            draw(1, rows, levels)


def test_rows_since_the_mid_moved_are_counted():
    book = np.array([[10, 1, 11, 1], [10, 5, 11, 1], [10, 1, 12, 1], [10, 1, 12, 9], [9, 1, 13, 1]], np.int32)
    assert rows_since_moved(book, 1).tolist() == [0, 1, 0, 1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_the_planted_rule_pays_on_the_reverting_tape_alone(seed):
    tape = reverting(seed, 4096, 10)
    rule = planted_rule(tape)
    assert profit_per_step(tape, rule) > 0.7
    assert profit_per_step(tape, BUY + SELL - rule) < -0.7
    plain = synthetic(seed, 4096, 10)
    assert profit_per_step(plain, planted_rule(plain)) < -0.2


def test_profit_is_taken_at_the_touch_two_rows_after_the_choice():
    tape = synthetic(1, 6, 1)
    bid, ask = tape.book[:, 0].tolist(), tape.book[:, 2].tolist()
    assert profit_per_step(tape, np.zeros(6, np.int64)) == 0.0
    actions = np.array([BUY, BUY, SELL, SELL, SELL, SELL])
    gain = bid[4] - ask[2] + bid[5] - (bid[5] + ask[5]) / 2
    assert profit_per_step(tape, actions) == gain / 6


def test_a_tape_is_trainable_from_the_row_on_that_both_segments_need():
    """T + 34 = 50 rows in the last fifth: 250 rows leave 50, 249 leave 50, 245 leave 49."""
    assert train_rows(250) == 200
    check_trainable(synthetic(1, 250, 1), 16)
    with pytest.raises(Mistake, match=r"at least 50 rows for evaluation \(last 20 %\), got 49"):
        check_trainable(synthetic(1, 245, 1), 16)
    with pytest.raises(Mistake, match=r"at least 50 rows for training"):
        check_trainable(synthetic(1, 20, 1), 16)
