"""Synthetic tapes: a book that follows nothing, and one with a planted rule that pays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foxflow.determinism.stream import Stream, scale
from foxflow.errors import must
from foxflow.market.book import Ints32, Ints64, Tape, rows_since_moved
from foxflow.market.instrument import ES, NANOS

TAPE_STREAM = 0x0DA7
START_TICKS = 20_000
"""Best bid before the first row: 5,000 points of ES."""
START_NS = 1_704_205_800 * NANOS
"""2024-01-02 14:30 UTC, the stock market's opening."""
MAX_SIZE = 200
PERIOD = 32
"""Rows of one swing of the reverting tape, down and up again."""
AMPLITUDE = 16
"""Ticks from its middle to its top; with PERIOD 32 it moves two ticks a row, so an order that waits is left behind."""
LATENCY = 2
"""Rows from the book on which an action is chosen to the book in which it is done: one step in flight."""
BUY, SELL = 1, 2
"""Market orders, as the environment numbers its actions."""


def synthetic(seed: int, rows: int, levels: int) -> Tape:
    """Draw an ES tape without anything to learn: a lazy walk, spread 1 or 2 ticks, one row a second.

    Each row takes 2 + 2L words of stream 0x0DA7, in this order: spread (below 4: 0 gives 2 ticks, else 1), move of
    the best bid (below 5: 0 gives -1, 4 gives +1, else 0), L bid sizes and L ask sizes (1 + below 200). A longer
    tape therefore begins with the shorter one.

    Args:
        seed: the run's seed.
        rows: n.
        levels: L, all of them filled, one tick apart.

    Raises:
        Mistake: rows or levels below 1.
    """
    spread, move, sizes = _drawn(seed, rows, levels)
    return _tape(START_TICKS + np.cumsum(move), spread, sizes, "synthetic")


def reverting(seed: int, rows: int, levels: int) -> Tape:
    """Draw an ES tape whose price swings between two bounds while it drifts as `synthetic` does.

    To the walk of `synthetic` (same draws) a triangle is added: PERIOD rows, AMPLITUDE ticks to either side. The
    queues lean towards the way the triangle goes LATENCY rows later: there the bid sizes of a rise are 101 … 200 and
    the ask sizes 1 … 100, and the reverse before a fall. So the queue imbalance of a row tells which order pays when
    it arrives.

    Args: as those of `synthetic`.
    """
    spread, move, sizes = _drawn(seed, rows, levels)
    row = np.arange(rows)
    rises = _rises(row + LATENCY)
    half = MAX_SIZE // 2
    small = (sizes - 1) % half + 1
    sizes = small + half * np.stack([rises, ~rises], axis=1)[:, :, None]
    return _tape(START_TICKS + np.cumsum(move) + _triangle(row), spread, sizes, "synthetic:reverting")


def planted_rule(tape: Tape) -> Ints64:
    """The rule that pays on a reverting tape: buy on each row whose first bid queue is the longer, else sell.

    Orders beyond one lot are ignored, so that this turns the position round within two rows and holds it.

    Args:
        tape: of `reverting`.

    Returns:
        int64[n], the action of each row, BUY or SELL.
    """
    return np.where(tape.book[:, tape.levels] > tape.book[:, 3 * tape.levels], BUY, SELL).astype(np.int64)


def profit_per_step(tape: Tape, actions: NDArray[np.integer]) -> float:
    """Trade one lot by market orders through a tape and mark it to the mid.

    Written apart from the environment, to check it: an order chosen on row n is done in the book of row n + LATENCY,
    a buy at the ask and a sell at the bid; one that would make the position exceed a lot is ignored.

    Args:
        tape: n rows.
        actions: int[n], BUY, SELL or anything else to do nothing.

    Returns:
        Ticks of profit for each row, the spread paid, the last position marked to the mid.
    """
    levels = tape.levels
    bid, ask = tape.book[:, 0].tolist(), tape.book[:, 2 * levels].tolist()
    position = cash = 0
    for done, action in enumerate(actions.tolist()[: max(0, len(bid) - LATENCY)], LATENCY):
        if action == BUY and position < 1:
            position, cash = position + 1, cash - ask[done]
        elif action == SELL and position > -1:
            position, cash = position - 1, cash + bid[done]
    return float(cash + position * (bid[-1] + ask[-1]) / 2) / len(bid)


def _drawn(seed: int, rows: int, levels: int) -> tuple[Ints64, Ints64, Ints64]:
    """Spreads [n], moves [n] and sizes [n, 2, L]."""
    for what, number in (("rows", rows), ("levels", levels)):
        if number < 1:
            raise must(what, "be 1 or more", number, "Ask for a tape with a book on it.")
    words = Stream(seed, TAPE_STREAM).words(rows * (2 + 2 * levels)).reshape(rows, 2 + 2 * levels)
    spread = np.where(scale(words[:, 0], 4) == 0, 2, 1)
    draw = scale(words[:, 1], 5)
    return (
        spread,
        (draw == 4).astype(np.int64) - (draw == 0),
        1 + scale(words[:, 2:], MAX_SIZE).reshape(rows, 2, levels),
    )


def _rises(row: Ints64) -> NDArray[np.bool_]:
    """Whether the triangle goes up from this row to the next."""
    return row % PERIOD >= PERIOD // 2


def _triangle(row: Ints64) -> Ints64:
    """+AMPLITUDE on row 0, -AMPLITUDE half a period later, straight lines between."""
    half = PERIOD // 2
    return abs(row % PERIOD - half) * (2 * AMPLITUDE) // half - AMPLITUDE


def _tape(bid: Ints64, spread: Ints64, sizes: Ints64, name: str) -> Tape:
    rows, _, levels = sizes.shape
    depth = np.arange(levels)
    book: Ints32 = np.concatenate(
        [bid[:, None] - depth, sizes[:, 0], (bid + spread)[:, None] + depth, sizes[:, 1]], axis=1
    ).astype(np.int32)
    return Tape(
        book=book,
        ts=START_NS + np.arange(rows, dtype=np.int64) * NANOS,
        levels=levels,
        instrument=ES,
        dropped=(),
        source=(),
        moved=rows_since_moved(book, levels),
        format=name,
    )
