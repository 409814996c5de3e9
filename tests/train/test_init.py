"""Initial values come from one seeded scope a group, or not at all."""

from __future__ import annotations

import threading
from math import sqrt

import pytest
import torch
from bits import assert_bit_equal

from foxflow.agent.parameters import GROUPS, draw, table
from foxflow.config import PRESETS
from foxflow.determinism.init import STREAMS, scoped_init_seed, xavier
from foxflow.determinism.stream import Stream
from foxflow.errors import UnseededInitError

TINY = PRESETS["tiny"]


def test_a_draw_outside_a_scope_is_refused() -> None:
    with pytest.raises(UnseededInitError, match=r"must be drawn inside scoped_init_seed"):
        xavier((2, 3))


def test_a_draw_after_a_scope_is_refused() -> None:
    with scoped_init_seed(42, "q"):
        xavier((2, 3))
    with pytest.raises(UnseededInitError):
        xavier((2, 3))


def test_a_scope_is_closed_after_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), scoped_init_seed(42, "q"):
        raise ZeroDivisionError
    with pytest.raises(UnseededInitError):
        xavier((2, 3))


def test_an_outer_scope_goes_on_where_it_was_after_an_exception_inside() -> None:
    with scoped_init_seed(42, "q"):
        first = xavier((2, 3))
        with pytest.raises(ZeroDivisionError), scoped_init_seed(7, "pi"):
            raise ZeroDivisionError(xavier((5, 5)))
        second = xavier((2, 3))
    with scoped_init_seed(42, "q"):
        assert_bit_equal(torch.stack([xavier((2, 3)), xavier((2, 3))]), torch.stack([first, second]))


def test_a_scope_is_that_of_its_thread() -> None:
    refused: list[Exception] = []

    def elsewhere() -> None:
        try:
            xavier((2, 3))
        except UnseededInitError as error:
            refused.append(error)

    with scoped_init_seed(42, "q"):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert len(refused) == 1


def test_no_two_uses_of_a_seed_share_an_id_and_no_two_seeds_a_stream() -> None:
    assert len(set(STREAMS.values())) == len(STREAMS)
    starts = {Stream(seed, use).next() for seed in (*range(300), 2**64 - 1) for use in STREAMS.values()}
    assert len(starts) == 301 * len(STREAMS)


def test_a_seed_shifted_by_the_distance_of_two_ids_is_not_the_other_stream() -> None:
    """Were the id added to the seed, outcome at seed 32 would be q at seed 0 less their distance."""
    distance = STREAMS["q"] - STREAMS["outcome"]
    assert Stream(distance, STREAMS["outcome"]).next() != Stream(0, STREAMS["q"]).next()


def test_each_group_draws_from_its_own_stream_in_table_order() -> None:
    drawn = draw(TINY, 42)
    assert list(drawn) == [w.key for w in table(TINY)]
    for group in GROUPS:
        stream = Stream(42, STREAMS[group])
        for w in (w for w in table(TINY) if w.group == group and w.start in ("xavier", "near_zero")):
            gain, fan_out = (1.0 if w.start == "xavier" else 0.01), (w.shape[1] if len(w.shape) == 2 else 1)
            a = torch.tensor(gain * sqrt(6 / (w.shape[0] + fan_out)), dtype=torch.float32)
            u = torch.from_numpy(stream.uniform(drawn[w.key].numel())).reshape(w.shape)
            assert_bit_equal(drawn[w.key], a * (2 * u - 1))


def test_initial_values_lie_inside_their_bound_and_last_layers_near_zero() -> None:
    drawn = draw(PRESETS["default"], 42)
    bound = sqrt(6 / (128 + 3)) * 0.01
    assert 0.9 * bound < float(drawn["outcome_w"].abs().max()) <= bound
    assert not drawn["outcome_b"].any()


def test_two_seeds_give_other_values_in_every_drawn_weight() -> None:
    a, b = draw(TINY, 42), draw(TINY, 43)
    same = {key for key in a if torch.equal(a[key], b[key])}
    assert same == {w.key for w in table(TINY) if w.start not in ("xavier", "near_zero")}
