"""What a price tick is worth, and when the exchange's day begins.

Prices travel as integer ticks, money as integers of 1e-4 of the currency, so that neither is ever rounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from foxflow.errors import must

NANOS = 1_000_000_000
DAY_NS = 86_400 * NANOS
_QUARTER_NS = 900 * NANOS


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """One traded thing: tick, money and clock."""

    name: str
    tick_nanos: int
    """Price of one tick in units of 1e-9."""
    tick_value_e4: int
    """Worth of one tick for one lot, in 1e-4 of the currency; 0 where nobody has said."""
    fee_e4: int = 0
    """Fee per lot and side, in 1e-4 of the currency."""
    currency: str = "USD"
    zone: str = "UTC"
    """Name of the exchange's time zone; the day begins at its midnight."""
    session_seconds: int = 86_400
    sessions_per_year: int = 252

    @property
    def tick(self) -> str:
        """The tick as a decimal, e.g. "0.25"."""
        return f"{Decimal(self.tick_nanos).scaleb(-9).normalize():f}"


ES = Instrument(
    name="ES", tick_nanos=250_000_000, tick_value_e4=125_000, zone="America/Chicago", session_seconds=82_800
)
US_EQUITY = Instrument(
    name="US-EQUITY", tick_nanos=10_000_000, tick_value_e4=100, zone="America/New_York", session_seconds=23_400
)
_KNOWN = {known.name: known for known in (ES, US_EQUITY)}
_ES_SYMBOL = re.compile(r"ES([FGHJKMNQUVXZ]\d{1,2}|\.[a-zA-Z]\.\d+|\.FUT)?")
_EQUITY_DATASET = re.compile(
    r"(XNAS|XNYS|XASE|ARCX|BATS|BATY|EDGA|EDGX|IEXG|MEMX|EPRL|XBOS|XPSX|XCHI|XCIS|DBEQ|EQUS)\..+"
)


def instrument(name: str) -> Instrument:
    """Look up a built-in instrument.

    Args:
        name: "ES" (E-mini S&P 500, CME) or "US-EQUITY" (one share, ticks of a cent).

    Raises:
        Mistake: no built-in has this name.
    """
    if name not in _KNOWN:
        raise must("instrument", f"be one of {', '.join(_KNOWN)}", repr(name), "Or state the tick by options.")
    return _KNOWN[name]


def guess(dataset: str, symbol: str) -> Instrument | None:
    """Name the instrument behind a vendor's dataset and symbol, None where it can't be told.

    Args:
        dataset: Databento's, e.g. "GLBX.MDP3".
        symbol: e.g. "ESH4"; "" if unknown.
    """
    if dataset == "GLBX.MDP3" and _ES_SYMBOL.fullmatch(symbol):
        return ES
    return US_EQUITY if _EQUITY_DATASET.fullmatch(dataset) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """An instrument as options state it: decimals as text, money in the currency."""

    name: str
    tick: str
    tick_value: str
    fee: str = "0"
    currency: str = "USD"
    zone: str = "UTC"
    session_seconds: int = 86_400
    sessions_per_year: int = 252


def make(terms: Terms) -> Instrument:
    """Build an instrument from options.

    Args:
        terms: tick as a price, e.g. "0.005"; tick_value and fee (per lot and side) as money, e.g. "12.50".

    Raises:
        Mistake: a decimal can't be read or is finer than 1e-9 (tick) or 1e-4 (money); a value is out of range; no
            such time zone.
    """
    tick = _scaled("tick", terms.tick, 9)
    value = _scaled("tick value", terms.tick_value, 4)
    fee = _scaled("fee", terms.fee, 4)
    for what, number in (
        ("tick", tick),
        ("tick value", value),
        ("session seconds", terms.session_seconds),
        ("sessions per year", terms.sessions_per_year),
    ):
        if number <= 0:
            raise must(what, "be more than 0", number, "State it as the exchange publishes it.")
    if fee < 0:
        raise must("fee", "be 0 or more", terms.fee, "Leave rebates out.")
    try:
        ZoneInfo(terms.zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise must("time zone", "be a name of the tz database", repr(terms.zone), "E.g. America/New_York.") from None
    return Instrument(
        name=terms.name,
        tick_nanos=tick,
        tick_value_e4=value,
        fee_e4=fee,
        currency=terms.currency,
        zone=terms.zone,
        session_seconds=terms.session_seconds,
        sessions_per_year=terms.sessions_per_year,
    )


def _scaled(what: str, text: str, digits: int) -> int:
    """A decimal times 10**digits, refused unless whole."""
    try:
        scaled = Decimal(text).scaleb(digits)
        whole = int(scaled)
    except (InvalidOperation, ValueError, OverflowError):
        raise must(what, "be a decimal number", repr(text), "Write it like 0.25.") from None
    if scaled != whole:
        raise must(what, f"have at most {digits} decimals", repr(text), "Write it as the exchange publishes it.")
    return whole


def day_ns(instrument: Instrument, ts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tell the exchange's wall clock: ns since its midnight, right across daylight saving.

    Args:
        instrument: gives the time zone.
        ts: int64[n] ns UTC, 1970 or later, in any order.

    Returns:
        int64[n], 0 to 86,400e9 - 1.
    """
    if not len(ts):
        return np.zeros(0, np.int64)
    zone = ZoneInfo(instrument.zone)
    quarter = ts // _QUARTER_NS
    starts = np.flatnonzero(np.diff(quarter, prepend=quarter[0] - 1))
    offsets = np.array([_offset_ns(zone, int(q)) for q in quarter[starts]], np.int64)
    offset = np.repeat(offsets, np.diff(starts, append=len(ts)))
    return np.asarray((ts + offset) % DAY_NS, dtype=np.int64)


def midnight_ns(instrument: Instrument, date: str) -> int:
    """UTC ns at which the exchange's day `date` (YYYY-MM-DD) begins."""
    begin = datetime.fromisoformat(date).replace(tzinfo=ZoneInfo(instrument.zone))
    return int(begin.timestamp()) * NANOS


def _offset_ns(zone: ZoneInfo, quarter: int) -> int:
    """UTC offset in a quarter of an hour; zones change at whole quarters only."""
    offset = datetime.fromtimestamp(quarter * 900, UTC).astimezone(zone).utcoffset()
    return (offset or timedelta()) // timedelta(microseconds=1) * 1000
