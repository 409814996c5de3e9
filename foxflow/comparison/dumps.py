"""The dumped bytes of one step on both sides: checked against their digests, then measured."""

from __future__ import annotations

import functools
import json
import math
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from foxflow import flow
from foxflow.comparison.elements import SIZES, Apart, apart
from foxflow.digest import DTYPES, digest
from foxflow.errors import CorruptRecord

THREADS = 2
PIECE_BYTES = 1 << 23
"""Of both sides, checked by a thread at a time."""
AHEAD = 4
"""Pieces that are read before the first is needed."""

Key = tuple[int | None, int, str]
"""k, rank and buffer: a row within its step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What both records' digests.parquet say of one row; None on the side that lacks it."""

    group: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class Corrupt:
    """A record that contradicts itself: at which file or buffer, and where in the run."""

    record: str
    what: str
    where: flow.Where


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    key: Key
    group: str
    dtype: str
    shape: tuple[int, ...]
    digest: str
    data: Any


Items = tuple[_Item | None, _Item | None]
"""A row of both dumps, None on the side that lacks it."""


@dataclass(slots=True)
class Dumps:
    """Reads the dumps of the steps that both records dumped, and keeps count."""

    a: flow.Record
    b: flow.Record
    corrupt: list[Corrupt] = field(default_factory=list)
    seen: dict[str, list[int]] = field(default_factory=dict)
    """Group -> dumped buffers seen on both sides, of these differing; in the order of the run."""

    def common(self) -> set[tuple[str, int]]:
        """(phase, step) of the dumps that are there on both sides."""
        return set(self.a.dump_steps) & set(self.b.dump_steps)

    def inspect(self, phase: str, step: int, stated: dict[Key, Stated]) -> dict[Key, Apart]:
        """Check one step's dumps and measure those that differ.

        Args:
            phase: of the step.
            step: its number.
            stated: every row of the step in the two digests.parquet.

        Returns:
            By row, how far the two sides lie apart; rows of another dtype or shape are not measured.
        """
        found: dict[Key, Apart] = {}
        for row in stated.values():
            self.seen.setdefault(row.group, [0, 0])
        sides = (self._items(record, (phase, step)) for record in (self.a, self.b))
        for items, sound in _checked(_matched(*sides), stated):
            for record, item, fits in zip((self.a, self.b), items, sound, strict=True):
                if item is not None and not fits:
                    where = flow.Where(step=step, k=item.key[0], group=item.group, buffer=item.key[2], phase=phase)
                    self.corrupt.append(Corrupt(record.path, item.key[2], where))
            one, other = items
            if one is None or other is None:
                continue
            tally = self.seen.setdefault(one.group, [0, 0])
            tally[0] += 1
            if one.digest != other.digest:
                tally[1] += 1
                if all(sound) and (one.dtype, one.shape) == (other.dtype, other.shape):
                    found[one.key] = apart(one.dtype, one.shape, one.data, other.data)
        return found

    def _items(self, record: flow.Record, at: tuple[str, int]) -> Iterator[_Item]:
        try:
            for batch in record.dump_unchecked(*at):
                names = ("k", "rank", "buffer", "group", "dtype", "shape", "digest")
                columns = [batch.column(name).to_pylist() for name in names]
                rows = zip(_contents(batch.column("data")), *columns, strict=True)
                for data, k, rank, buffer, group, dtype, shape, own in rows:
                    key = (k, rank, buffer)
                    yield _Item(key=key, group=group, dtype=dtype, shape=_sizes(shape), digest=own, data=data)
        except CorruptRecord as error:
            where = flow.Where(step=at[1], k=None, group="", buffer=error.where, phase=at[0])
            self.corrupt.append(Corrupt(record.path, error.where, where))


@functools.lru_cache(maxsize=65536)
def _sizes(shape: str) -> tuple[int, ...]:
    return tuple(json.loads(shape))


def _contents(column: Any) -> list[Any]:
    """The bytes of each row as they lie in memory; a scalar of Arrow's would copy them."""
    valid, ends, data = column.buffers()
    bounds = np.frombuffer(ends, np.int64)[column.offset : column.offset + len(column) + 1].tolist()
    held = column.is_valid().to_pylist() if valid is not None else [True] * len(column)
    spans = zip(held, bounds[:-1], bounds[1:], strict=True)
    return [data.slice(begin, end - begin) if there else None for there, begin, end in spans]


def _checked(pairs: Iterator[Items], stated: dict[Key, Stated]) -> Iterator[tuple[Items, tuple[bool, bool]]]:
    """Rows, and whether each side's bytes have the digests that are stated of them; checked in threads, in order."""
    coming: deque[Future[list[tuple[bool, bool]]]] = deque()
    waiting: deque[list[Items]] = deque()
    with ThreadPoolExecutor(THREADS) as threads:
        for piece in _pieces(pairs):
            waiting.append(piece)
            coming.append(threads.submit(_sound, piece, stated))
            if len(waiting) > AHEAD:
                yield from zip(waiting.popleft(), coming.popleft().result(), strict=True)
        while waiting:
            yield from zip(waiting.popleft(), coming.popleft().result(), strict=True)


def _pieces(pairs: Iterator[Items]) -> Iterator[list[Items]]:
    """Rows in pieces worth a thread's while."""
    piece: list[Items] = []
    size = 0
    for items in pairs:
        piece.append(items)
        size += sum(item.data.size for item in items if item is not None and item.data is not None)
        if size >= PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _sound(piece: list[Items], stated: dict[Key, Stated]) -> list[tuple[bool, bool]]:
    """For each row whether A's and B's bytes fit; bytes that are the same on both sides are digested once."""
    found = []
    for a, b in piece:
        alike = a is not None and b is not None and _alike(a, b)
        got_a = _digest(a)
        got_b = got_a if alike else _digest(b)
        found.append((_fits(a, got_a, stated, "a"), _fits(b, got_b, stated, "b")))
    return found


def _alike(a: _Item, b: _Item) -> bool:
    """Whether two buffers have one digest, being of one form and of the same bytes."""
    form = (a.dtype, a.shape) == (b.dtype, b.shape)
    return form and a.data is not None and b.data is not None and a.data.equals(b.data)


def _fits(item: _Item | None, got: str | None, stated: dict[Key, Stated], side: str) -> bool:
    """Whether the dump and digests.parquet both say the digest that the bytes have."""
    if item is None or got is None:
        return False
    said = getattr(stated.get(item.key), side, None) or item.digest
    return got == item.digest == said


def _digest(item: _Item | None) -> str | None:
    """The digest of the bytes; None where they are not as many as the shape says."""
    if item is None:
        return None
    data, dtype, shape = item.data, item.dtype, item.shape
    if data is None or dtype not in DTYPES or data.size != math.prod(shape) * SIZES.get(dtype, 1):
        return None
    return digest(data, dtype, shape)


def _matched(side_a: Iterator[_Item], side_b: Iterator[_Item]) -> Iterator[Items]:
    """Items of both sides by key, those without partner last; items wait only where the order differs."""
    waiting_a: dict[Key, _Item] = {}
    waiting_b: dict[Key, _Item] = {}
    more = True
    while more:
        more = False
        for side, own, others in ((side_a, waiting_a, waiting_b), (side_b, waiting_b, waiting_a)):
            if (item := next(side, None)) is None:
                continue
            more = True
            if (partner := others.pop(item.key, None)) is not None:
                yield (item, partner) if side is side_a else (partner, item)
            else:
                own[item.key] = item
    yield from ((item, None) for item in waiting_a.values())
    yield from ((None, item) for item in waiting_b.values())
