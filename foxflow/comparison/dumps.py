"""The dumped bytes of one step on both sides: checked against their digests, then measured."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from foxflow import flow
from foxflow.comparison.elements import SIZES, Apart, apart
from foxflow.digest import DTYPES, digest
from foxflow.errors import CorruptRecord

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
    sound: bool


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
        sides = tuple(
            self._items(record, (phase, step), {key: getattr(row, name) for key, row in stated.items()})
            for name, record in (("a", self.a), ("b", self.b))
        )
        for one, other in _matched(*sides):
            tally = self.seen.setdefault(one.group, [0, 0])
            tally[0] += 1
            if one.digest != other.digest:
                tally[1] += 1
                if one.sound and other.sound and (one.dtype, one.shape) == (other.dtype, other.shape):
                    found[one.key] = apart(one.dtype, one.shape, one.data, other.data)
        return found

    def _items(self, record: flow.Record, at: tuple[str, int], stated: dict[Key, str | None]) -> Iterator[_Item]:
        try:
            for batch in record.dump(*at):
                columns = [
                    batch.column(name).to_pylist() for name in ("k", "rank", "buffer", "group", "dtype", "shape")
                ]
                for i, (k, rank, buffer, group, dtype, shape) in enumerate(zip(*columns, strict=True)):
                    data, key = batch.column("data")[i].as_buffer(), (k, rank, buffer)
                    sizes, own = tuple(json.loads(shape)), batch.column("digest")[i].as_py()
                    sound = _sound(data, dtype, sizes, {own, stated.get(key) or own})
                    if not sound:
                        where = flow.Where(step=at[1], k=k, group=group, buffer=buffer, phase=at[0])
                        self.corrupt.append(Corrupt(record.path, buffer, where))
                    yield _Item(key=key, group=group, dtype=dtype, shape=sizes, digest=own, data=data, sound=sound)
        except CorruptRecord as error:
            where = flow.Where(step=at[1], k=None, group="", buffer=error.where, phase=at[0])
            self.corrupt.append(Corrupt(record.path, error.where, where))


def _sound(data: Any, dtype: str, shape: tuple[int, ...], digests: set[str]) -> bool:
    """Whether the bytes are as many as the shape says and have the one digest that is stated of them."""
    if data is None or dtype not in DTYPES or data.size != math.prod(shape) * SIZES.get(dtype, 1):
        return False
    return digests == {digest(data, dtype, shape)}


def _matched(side_a: Iterator[_Item], side_b: Iterator[_Item]) -> Iterator[tuple[_Item, _Item]]:
    """Items of both sides by key; both sides are read to their ends, items wait only where the order differs."""
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
