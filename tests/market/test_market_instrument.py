"""Ticks, money and the exchange's clock."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from foxflow.errors import Mistake
from foxflow.market.instrument import ES, US_EQUITY, Terms, day_ns, guess, instrument, make


def test_built_in_instruments_have_the_exchanges_terms():
    assert (ES.tick, ES.tick_value_e4, ES.fee_e4, ES.currency, ES.session_seconds) == (
        "0.25",
        125_000,
        0,
        "USD",
        82_800,
    )
    assert (US_EQUITY.tick, US_EQUITY.tick_value_e4, US_EQUITY.session_seconds) == ("0.01", 100, 23_400)
    assert instrument("ES") is ES
    with pytest.raises(Mistake, match="instrument must be one of ES, US-EQUITY, got 'NQ'"):
        instrument("NQ")


@pytest.mark.parametrize(
    ("dataset", "symbol", "expected"),
    [
        ("GLBX.MDP3", "ESH4", ES),
        ("GLBX.MDP3", "ES.c.0", ES),
        ("GLBX.MDP3", "ESH4-ESM4", None),
        ("GLBX.MDP3", "NQH4", None),
        ("GLBX.MDP3", "", None),
        ("XNAS.ITCH", "", US_EQUITY),
        ("IFEU.IMPACT", "ESH4", None),
    ],
)
def test_only_what_the_file_names_is_guessed(dataset, symbol, expected):
    assert guess(dataset, symbol) is expected


def test_other_instruments_are_stated_exactly():
    made = make(
        Terms(name="TTF", tick="0.005", tick_value="3.60", fee="0.0125", currency="EUR", zone="Europe/Amsterdam")
    )
    assert (made.tick_nanos, made.tick_value_e4, made.fee_e4, made.tick) == (5_000_000, 36_000, 125, "0.005")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tick": "0.0000000001"}, "tick must have at most 9 decimals"),
        ({"tick": "x"}, "tick must be a decimal number"),
        ({"tick": "NaN"}, "tick must be a decimal number"),
        ({"tick": "Infinity"}, "tick must be a decimal number"),
        ({"tick": "0"}, "tick must be more than 0"),
        ({"tick_value": "0.00001"}, "tick value must have at most 4 decimals"),
        ({"tick_value": "-1"}, "tick value must be more than 0"),
        ({"fee": "-1"}, "fee must be 0 or more"),
        ({"zone": "Mars/Olympus"}, "time zone must be a name"),
        ({"zone": "../etc"}, "time zone must be a name"),
        ({"session_seconds": 0}, "session seconds must be more than 0"),
        ({"sessions_per_year": 0}, "sessions per year must be more than 0"),
    ],
)
def test_terms_that_make_no_sense_are_refused(change, words):
    with pytest.raises(Mistake, match=words):
        make(Terms(**({"name": "x", "tick": "1", "tick_value": "1"} | change)))


@pytest.mark.parametrize(
    "zone", ["America/New_York", "America/Chicago", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"]
)
def test_the_clock_equals_pythons_over_a_year_in_any_order(zone):
    """A year of odd steps meets both changes of daylight saving; the order is then turned round."""
    begin = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp())
    ts = np.arange(begin, begin + 366 * 86_400, 613, dtype=np.int64) * 10**9 + 7
    made = make(Terms(name="x", tick="1", tick_value="1", zone=zone))
    local = [datetime.fromtimestamp(int(t) // 10**9, ZoneInfo(zone)) for t in ts]
    expected = [((t.hour * 60 + t.minute) * 60 + t.second) * 10**9 + 7 for t in local]
    assert day_ns(made, ts).tolist() == expected
    assert day_ns(made, ts[::-1]).tolist() == expected[::-1]
    assert day_ns(made, ts[:0]).tolist() == []
