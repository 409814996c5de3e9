"""Pair the rows of two records by (phase, step, k, rank, buffer): in lockstep, by keys where the order differs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from foxflow import flow
from foxflow.comparison.rows import Block, Places, Rows, Texts, step_of
from foxflow.errors import CorruptRecord

Pair = tuple[Block | None, Block | None]
KEY = ("place", "k", "rank", "buffer")


def pairs(a: flow.Record, b: flow.Record, names: Texts) -> Iterator[Pair]:
    """Yield aligned blocks, or a block of one side (the other None) whose rows have no partner.

    Memory holds two batches of each side, or one step where the order of its rows differs.

    Raises:
        CorruptRecord: a record's rows can't be read, are out of order, or one is there twice.
    """
    with ThreadPoolExecutor(2) as threads:
        yield from _walk((a.path, Rows(a, names, threads)), (b.path, Rows(b, names, threads)), names)


def _walk(a: tuple[str, Rows], b: tuple[str, Rows], names: Texts) -> Iterator[Pair]:
    (path_a, rows_a), (path_b, rows_b) = a, b
    while rows_a.head is not None and rows_b.head is not None:
        if alike := _alike(rows_a.head, rows_b.head):
            yield rows_a.take(alike), rows_b.take(alike)
            continue
        place_a, place_b = rows_a.head.place[0], rows_b.head.place[0]
        if place_a < place_b:
            yield rows_a.take_step(), None
        elif place_b < place_a:
            yield None, rows_b.take_step()
        else:
            yield from _by_key((path_a, rows_a.take_step()), (path_b, rows_b.take_step()), names)
    while rows_a.head is not None:
        yield rows_a.take(len(rows_a.head)), None
    while rows_b.head is not None:
        yield None, rows_b.take(len(rows_b.head))


def _alike(a: Block, b: Block) -> int:
    """How many rows from the start have the same keys on both sides."""
    count = min(len(a), len(b))
    same = np.ones(count, dtype=bool)
    for name in KEY:
        same &= getattr(a, name)[:count] == getattr(b, name)[:count]
    return count if same.all() else int(same.argmin())


def _keys(side: tuple[str, Block], names: Texts) -> dict[tuple[int, int, int], int]:
    path, block = side
    found: dict[tuple[int, int, int], int] = {}
    for i, key in enumerate(zip(block.k.tolist(), block.rank.tolist(), block.buffer.tolist(), strict=True)):
        if key in found:
            phase, step = step_of(int(block.place[0]))
            raise CorruptRecord(path, names["buffer"].texts[key[2]], f"is there twice in {phase} step {step}")
        found[key] = i
    return found


def _by_key(a: tuple[str, Block], b: tuple[str, Block], names: Texts) -> Iterator[Pair]:
    keys_a, keys_b = _keys(a, names), _keys(b, names)
    both = [(i, keys_b[key]) for key, i in keys_a.items() if key in keys_b]
    only_a = [i for key, i in keys_a.items() if key not in keys_b]
    only_b = [i for key, i in keys_b.items() if key not in keys_a]
    if both:
        at_a, at_b = (_indices(list(side)) for side in zip(*both, strict=True))
        yield a[1].taken(at_a), b[1].taken(at_b)
    if only_a:
        yield a[1].taken(_indices(only_a)), None
    if only_b:
        yield None, b[1].taken(_indices(only_b))


def _indices(values: list[int]) -> Places:
    return np.array(values, dtype=np.int64)
