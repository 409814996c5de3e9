"""What a reader of one format hands on: the file's own numbers and how it names its places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foxflow.errors import BadData, Mistake, must
from foxflow.market.book import Ints64
from foxflow.market.content import Content
from foxflow.market.instrument import Instrument

Levels = Sequence[NDArray[np.integer]]
NO_PRICE = 2**63 - 1
"""DBN's "no price"; the CSV readers fill empty prices with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a file's rows are called and what its prices mean."""

    file: str
    """Name of the file that holds the book."""
    row_word: str
    """"row", or "record" where there are no lines."""
    column: Callable[[str, str, int], str]
    """(side, "price" or "size", level from 0) -> the column's name in messages."""
    price_nanos: int
    """One unit of price in 1e-9."""
    no_bid: int = NO_PRICE
    no_ask: int = NO_PRICE
    clock_file: str = ""
    """Name of the file that holds the times, where it is another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some consecutive rows. Prices and sizes: an int[r] per level of the file, the best first, in its units."""

    rows: Ints64
    """int64[r]: the file's row numbers, counted from 1."""
    ts: Ints64
    """int64[r], ns UTC."""
    bid_px: Levels
    bid_sz: Levels
    ask_px: Levels
    ask_sz: Levels
    halted: NDArray[np.bool_] | None = None
    """bool[r]: trading was halted on this row; None where the format doesn't say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A file as read, before any row is judged."""

    format: str
    note: str = ""
    files: tuple[Content, ...]
    layout: Layout
    levels: int
    blocks: Iterable[Block]
    """Read as they are asked for, so that a fault late in the file is raised then."""
    guess: Instrument | None
    """The instrument as far as the file tells."""
    skipped: tuple[tuple[str, int, int], ...] = ()
    """(reason, rows, first row) of what holds no book."""


def bad(layout: Layout, row: int, rule: str, got: object, do: str = "Mend or cut the file.") -> Mistake:
    """The error of one row of a file, to be raised."""
    return must(f"{layout.file}: {layout.row_word} {row}", rule, got, do, BadData)
