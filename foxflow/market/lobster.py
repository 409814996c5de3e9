"""LOBSTER: a message file and an order book file without headers, row by row the same events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foxflow.errors import BadData, must
from foxflow.market.book import Ints64
from foxflow.market.content import Content, open_content
from foxflow.market.instrument import DAY_NS, US_EQUITY, midnight_ns
from foxflow.market.reading import Block, Layout, Reading
from foxflow.market.text import Table, decimals, integer_batches, read_table

NAME = re.compile(r"(?P<ticker>.+)_(?P<date>\d{4}-\d\d-\d\d)_\d+_\d+_(?P<kind>message|orderbook)_(?P<levels>\d+)\..+")
_MESSAGE = ("time", "type", "order id", "size", "price", "direction")
_NO_ASK = 9_999_999_999
_HALT = 7
_ROWS = 8192
_AHEAD = 32
"""Batches of the book that are parsed while another thread reads the messages."""


def _parts(path: Path) -> re.Match[str]:
    match = NAME.fullmatch(path.name)
    if match is None:
        raise must(
            path.name,
            "be called TICKER_DATE_START_END_message_LEVELS.csv or …_orderbook_…",
            "another name",
            "LOBSTER keeps the date in the name alone: give both files of the pair their names back.",
            BadData,
        )
    return match


def _partner(path: Path, parts: re.Match[str]) -> Path:
    """The other file of the pair."""
    start, end = parts.span("kind")
    other = "orderbook" if parts["kind"] == "message" else "message"
    return path.with_name(path.name[:start] + other + path.name[end:])


def read(path: Path, content: Content) -> Reading:
    """Read a pair.

    Args:
        path: either file.
        content: that file's content.

    Raises:
        BadData: the names aren't LOBSTER's, the pair is not whole, a value can't be read; names file, row and column.
    """
    parts = _parts(path)
    other = open_content(_partner(path, parts))
    message, book = (content, other) if parts["kind"] == "message" else (other, content)
    levels = int(parts["levels"])
    return Reading(
        format="lobster",
        files=(message, book),
        layout=Layout(
            file=book.name,
            row_word="row",
            column=_column,
            price_nanos=100_000,
            no_bid=-_NO_ASK,
            no_ask=_NO_ASK,
            clock_file=message.name,
        ),
        levels=levels,
        blocks=_blocks(book, levels, message, midnight_ns(US_EQUITY, parts["date"])),
        guess=US_EQUITY,
    )


_ORDER = (("ask", "price"), ("ask", "size"), ("bid", "price"), ("bid", "size"))


def _column(side: str, what: str, level: int) -> str:
    return f"column {4 * level + _ORDER.index((side, what)) + 1}"


@dataclass(frozen=True, slots=True)
class _Events:
    """What the message file says of each row."""

    ts: Ints64
    halted: NDArray[np.bool_]


def _events(message: Content, midnight: int) -> _Events:
    table = read_table(message, _MESSAGE, {"time": decimals(12)})
    return _Events(midnight + _times(table), _halted(table))


def _blocks(book: Content, levels: int, message: Content, midnight: int) -> Iterator[Block]:
    """The book in batches small enough to stay in the processor's cache, each row with its message."""
    labels = [f"{side} {what}" for _ in range(levels) for side, what in _ORDER]
    batches = integer_batches(book, labels, _ROWS)
    with ThreadPoolExecutor(1) as worker:
        coming = worker.submit(_events, message, midnight)
        ahead = list(islice(batches, _AHEAD))
        events = coming.result()
    rows = 0
    for batch in chain(ahead, batches):
        at = slice(rows, rows + len(batch[0]))
        rows = at.stop
        if rows <= len(events.ts):
            yield Block(
                rows=np.arange(at.start + 1, at.stop + 1, dtype=np.int64),
                ts=events.ts[at],
                ask_px=batch[0::4],
                ask_sz=batch[1::4],
                bid_px=batch[2::4],
                bid_sz=batch[3::4],
                halted=events.halted[at],
            )
    if rows != len(events.ts):
        raise must(
            f"{message.name} and {book.name}",
            "have the same number of rows",
            f"{len(events.ts)} and {rows}",
            "Get both files from one download.",
            BadData,
        )


def _times(messages: Table) -> Ints64:
    """ns since midnight, from seconds with up to twelve decimals, rounded to the nearest."""
    pico = messages.decimal("time")
    ns: Ints64 = (pico + 500) // 1000
    _refuse(messages.file, (pico < 0) | (ns >= 2 * DAY_NS), "have a time in seconds after midnight", ns)
    return ns


def _halted(messages: Table) -> NDArray[np.bool_]:
    """Check the events, and mark from each halt to the row before trading resumes."""
    kind, price = messages.integer("type"), messages.integer("price")
    size, direction = messages.integer("size"), messages.integer("direction")
    _refuse(messages.file, (kind < 1) | (kind > _HALT), "have an event type from 1 to 7", kind)
    _refuse(messages.file, size < 0, "have a size of 0 or more", size)
    _refuse(messages.file, abs(direction) != 1, "have a direction of 1 or -1", direction)
    _refuse(messages.file, (kind == _HALT) & (abs(price) > 1), "have a halt code of -1, 0 or 1 as price", price)
    marks = np.flatnonzero(kind == _HALT)
    halted = np.zeros(len(kind), bool)
    for mark, until in zip(marks, np.append(marks, len(kind))[1:], strict=True):
        halted[mark:until] = price[mark] != 1
    return halted


def _refuse(file: str, wrong: NDArray[np.bool_], rule: str, got: Ints64) -> None:
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise must(f"{file}: row {at + 1}", rule, got[at], "Mend or cut the file.", BadData)
