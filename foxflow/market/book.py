"""The tape: an order book row by row, in integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foxflow.errors import must
from foxflow.market.instrument import Instrument

Ints32 = NDArray[np.int32]
Ints64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tape:
    """n rows of an order book with L levels.

    `book` holds the columns [bid price 0…L-1 | bid size | ask price | ask size] in integer ticks and lots; a level
    that isn't there has price 0 and size 0. Every row has a bid and an ask, bid below ask.
    """

    book: Ints32
    """int32[n, 4L]."""
    ts: Ints64
    """int64[n], ns UTC, never going back."""
    levels: int
    instrument: Instrument
    dropped: tuple[tuple[str, int], ...]
    """(reason, rows): crossed, locked, one_sided, other_record; only what occurred."""
    source: tuple[tuple[str, str], ...]
    """(file name, SHA-256) of each file read; empty for a synthetic tape."""
    moved: Ints32
    """int32[n]: rows since the mid last moved, 0 on the row where it moved and on row 0."""
    format: str = "synthetic"
    note: str = ""
    """What the file says of itself beyond its format, e.g. the DBN version stored."""
    first_dropped: tuple[tuple[str, int], ...] = ()
    """(reason, the file's first row dropped for it, counted from 1)."""
    halts: tuple[tuple[int, int], ...] = ()
    """Spans [from, to) of the tape's rows in which the file says that trading was halted."""


def rows_since_moved(book: Ints32, levels: int) -> Ints32:
    """Count the rows since the mid last moved, int32[n]."""
    mid2 = book[:, 0].astype(np.int64) + book[:, 2 * levels]
    row = np.arange(len(book))
    moved = np.zeros(len(book), bool)
    moved[1:] = mid2[1:] != mid2[:-1]
    last: Ints64 = np.maximum.accumulate(np.where(moved, row, 0))
    return (row - last).astype(np.int32)


def train_rows(n: int) -> int:
    """How many of a tape's n rows train: the first 80 %; the others evaluate."""
    return n * 4 // 5


def check_trainable(tape: Tape, window: int) -> None:
    """Refuse a tape on which a run can't be made.

    Args:
        tape: any tape.
        window: T, rows that the model sees at once.

    Raises:
        Mistake: one of the two segments has fewer than T+34 rows, or nobody has said what a tick is worth.
    """
    train = train_rows(len(tape.ts))
    file = tape.source[0][0] if tape.source else "the tape"
    for segment, rows in (("training (first 80 %)", train), ("evaluation (last 20 %)", len(tape.ts) - train)):
        if rows < window + 34:
            raise must(file, f"leave at least {window + 34} rows for {segment}", rows, "Take a longer file.")
    if tape.instrument.tick_value_e4 <= 0:
        raise must(
            file, "be of a known instrument to train on", tape.instrument.name, "State tick and tick value by options."
        )
