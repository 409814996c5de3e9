"""From a file's own numbers to a tape: prices to ticks, missing levels masked, unusable rows dropped or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from foxflow.errors import BadData, Mistake, must
from foxflow.market.book import Ints32, Ints64, Tape, rows_since_moved
from foxflow.market.instrument import Instrument
from foxflow.market.reading import Block, Layout, Levels, Reading, bad

_INT32_MAX, _INT64_MAX = 2**31 - 1, 2**63 - 1
_Mask = NDArray[np.bool_]


def assemble(reading: Reading, *, instrument: Instrument | None, levels: int | None, strict: bool) -> Tape:
    """Judge every row of a file and build its tape.

    Args:
        reading: the file as read.
        instrument: what is traded; None takes the file's word, and where it says nothing an instrument "unknown"
            whose tick is the greatest step that divides all prices and whose tick value is 0.
        levels: levels of the tape; None keeps the file's.
        strict: refuse crossed and locked rows instead of dropping them.

    Raises:
        BadData: a price off the tick, a size below 0 or beyond int32, a missing level with a size or a level without
            one, levels out of order, a time going back, or (strict) a crossed or locked row; names file, row, column.
    """
    blocks = reading.blocks
    traded = instrument or reading.guess
    if traded is None:
        blocks = list(blocks)
        traded = _unknown(blocks, reading.layout)
    width = _width(reading.levels if levels is None else levels)
    sifted = _Sifted(tally={reason: (rows, first) for reason, rows, first in reading.skipped})
    for block in blocks:
        _check_times(block, sifted.last_ts, reading.layout)
        columns = _columns(block, reading.layout, traded, width)
        keep = _keep(block, columns, reading.layout, strict, sifted.tally)
        sifted.add(columns.reshape(4 * width, -1), block, keep)
    book = np.concatenate([np.zeros((0, 4 * width), np.int32), *sifted.books])
    return Tape(
        book=book,
        ts=np.concatenate([np.zeros(0, np.int64), *sifted.ts]),
        levels=width,
        instrument=traded,
        dropped=sifted.counts(0),
        source=tuple((file.name, file.sha256) for file in reading.files),
        moved=rows_since_moved(book, width),
        format=reading.format,
        note=reading.note,
        first_dropped=sifted.counts(1),
        halts=_spans(np.concatenate([np.zeros(0, bool), *sifted.halted])),
    )


def _width(levels: int) -> int:
    if levels < 1:
        raise must("levels", "be 1 or more", levels, "Ask for the levels that the model reads, e.g. 10.")
    return levels


@dataclass(slots=True, kw_only=True)
class _Sifted:
    """The rows kept so far, and what was dropped: reason -> (rows, the first of them)."""

    tally: dict[str, tuple[int, int]]
    books: list[Ints32] = field(default_factory=list)
    ts: list[Ints64] = field(default_factory=list)
    halted: list[_Mask] = field(default_factory=list)
    last_ts: int = 0

    def counts(self, of: int) -> tuple[tuple[str, int], ...]:
        """The tally's rows (0) or first rows (1), by reason."""
        return tuple((reason, pair[of]) for reason, pair in self.tally.items())

    def add(self, columns: Ints32, block: Block, keep: _Mask) -> None:
        """Take the rows of a block that stay."""
        whole = bool(keep.all())
        self.books.append(np.ascontiguousarray((columns if whole else columns[:, keep]).T))
        self.ts.append(block.ts if whole else block.ts[keep])
        if block.halted is not None:
            self.halted.append(block.halted[keep])
        self.last_ts = int(block.ts[-1]) if len(block.ts) else self.last_ts


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a block, [L, r] each, and the word for it."""

    name: str
    px: Ints64
    sz: Ints64
    missing: _Mask


def _columns(block: Block, layout: Layout, traded: Instrument, width: int) -> Ints32:
    """A block's book as int32[4, width, r]: bid prices, bid sizes, ask prices, ask sizes; or its earliest fault."""
    out = np.zeros((4, width, len(block.rows)), np.int32)
    faults: list[tuple[int, Mistake]] = []
    for at, side in ((0, _side("bid", block, layout)), (2, _side("ask", block, layout))):
        ticks, exact = _to_ticks(side, layout, traded)
        narrow, sizes = ticks.astype(np.int32), side.sz.astype(np.int32)
        if not (exact.all() and (narrow == ticks).all() and (sizes == side.sz).all() and _orderly(side, narrow, sizes)):
            faults += _first_fault(side, ticks, ~exact, layout, block.rows)
        kept = min(width, len(ticks))
        out[at, :kept], out[at + 1, :kept] = narrow[:kept], sizes[:kept]
    if faults:
        raise min(faults, key=lambda fault: fault[0])[1]
    return out


def _side(name: str, block: Block, layout: Layout) -> _Side:
    price = _stacked(block.bid_px if name == "bid" else block.ask_px)
    missing = price == (layout.no_bid if name == "bid" else layout.no_ask)
    if missing.any():
        price[missing] = 0
    return _Side(name, price, _stacked(block.bid_sz if name == "bid" else block.ask_sz), missing)


def _stacked(levels: Levels) -> Ints64:
    out = np.empty((len(levels), len(levels[0])), np.int64)
    for level, column in enumerate(levels):
        out[level] = column
    return out


def _to_ticks(side: _Side, layout: Layout, traded: Instrument) -> tuple[Ints64, _Mask]:
    """Prices in ticks, rounded down, and where they are exact."""
    unit, rest = divmod(traded.tick_nanos, layout.price_nanos)
    px = side.px
    if rest:
        limit = _INT64_MAX // layout.price_nanos
        px, unit = np.clip(px, -limit, limit) * layout.price_nanos, traded.tick_nanos
    ticks = px // unit
    return ticks, ticks * unit == px


def _orderly(side: _Side, ticks: Ints32, sizes: Ints32) -> bool:
    """Whether one side has nothing for `_first_fault` to find, told by the fewest passes over its numbers."""
    if sizes.min(initial=0) < 0 or ((sizes == 0) != side.missing).any():
        return False
    beyond = ticks[1:] < ticks[:-1] if side.name == "bid" else ticks[1:] > ticks[:-1]
    if not side.missing.any():
        return bool(beyond.all())
    return bool((side.missing[1:] | (beyond & ~side.missing[:-1])).all())


def _first_fault(side: _Side, ticks: Ints64, off: _Mask, layout: Layout, rows: Ints64) -> list[tuple[int, Mistake]]:
    """The earliest broken rule of one side, as (row, error); none if none is broken."""
    there = ~side.missing
    away = -1 if side.name == "bid" else 1
    behind = np.zeros_like(there)
    behind[1:] = there[1:] & there[:-1] & ((ticks[1:] - ticks[:-1]) * away <= 0)
    gap = np.zeros_like(there)
    gap[1:] = there[1:] & side.missing[:-1]
    checks: list[tuple[_Mask, str, str, Ints64]] = [
        (side.sz < 0, "size", "be 0 or more", side.sz),
        (side.sz > _INT32_MAX, "size", "fit into 32 bits", side.sz),
        (side.missing & (side.sz > 0), "size", "be 0 where the level's price is missing", side.sz),
        (there & (side.sz == 0), "size", "be more than 0 where the level has a price", side.sz),
        (abs(ticks) > _INT32_MAX, "price", "fit into 32 bits as ticks", ticks),
        (off, "price", "be a whole number of ticks", side.px),
        (behind, "price", "lie further from the market than the level before", side.px),
        (gap, "price", "be missing where the level before is", side.px),
    ]
    found = [(*_place(check[0]), order) for order, check in enumerate(checks) if check[0].any()]
    if not found:
        return []
    at, level, order = min(found)
    _, what, rule, got = checks[order]
    where = f"{layout.row_word} {rows[at]}, level {level + 1}, {layout.column(side.name, what, level)}"
    return [
        (
            at,
            must(f"{layout.file}: {where}: {side.name} {what}", rule, got[level, at], "Mend or cut the file.", BadData),
        )
    ]


def _place(mask: _Mask) -> tuple[int, int]:
    """The first place of a mask [L, r] by row, then by level."""
    at = int(np.flatnonzero(mask.any(axis=0))[0])
    return at, int(np.flatnonzero(mask[:, at])[0])


def _check_times(block: Block, last: int, layout: Layout) -> None:
    """Refuse a time before 1970, and one earlier than the row before."""
    early = np.diff(block.ts, prepend=last) < 0
    if not early.any():
        return
    at = int(np.flatnonzero(early)[0])
    before = block.ts[at - 1] if at else last
    raise must(
        f"{layout.clock_file or layout.file}: {layout.row_word} {block.rows[at]}",
        "not go back in time",
        f"{block.ts[at]} ns after {before} ns",
        "Rows are never sorted here: find out why the file is out of order.",
        BadData,
    )


def _keep(block: Block, columns: Ints32, layout: Layout, strict: bool, tally: dict[str, tuple[int, int]]) -> _Mask:
    """Which rows of a block stay; the others are added to the tally."""
    bid, ask = columns[0, 0], columns[2, 0]
    both = (columns[1, 0] > 0) & (columns[3, 0] > 0)
    keep: _Mask = both & (bid < ask)
    if keep.all():
        return keep
    for reason, mask in (("crossed", both & (bid > ask)), ("locked", both & (bid == ask)), ("one_sided", ~both)):
        if not mask.any():
            continue
        at = int(np.flatnonzero(mask)[0])
        row = int(block.rows[at])
        if strict and reason != "one_sided":
            raise bad(
                layout,
                row,
                f"not be {reason}",
                f"bid {bid[at]} and ask {ask[at]} ticks",
                "Leave strict data off to drop and count such rows.",
            )
        rows, first = tally.get(reason, (0, row))
        tally[reason] = (rows + int(mask.sum()), first)
    return keep


def _spans(halted: _Mask) -> tuple[tuple[int, int], ...]:
    edges = np.flatnonzero(np.diff(halted.astype(np.int8), prepend=0, append=0))
    return tuple((int(a), int(b)) for a, b in edges.reshape(-1, 2))


def _unknown(blocks: Sequence[Block], layout: Layout) -> Instrument:
    """An instrument of which only the step of its prices is seen."""
    step = 0
    for block in blocks:
        for side in (_side("bid", block, layout), _side("ask", block, layout)):
            step = int(np.gcd.reduce(side.px.reshape(-1), initial=step))
    return Instrument(name="unknown", tick_nanos=max(step * layout.price_nanos, 1), tick_value_e4=0)
