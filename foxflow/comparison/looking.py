"""One buffer of one record: its digest at every step, and where its bytes were dumped, what they hold."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from foxflow import flow
from foxflow.comparison.elements import SIZES, numbers
from foxflow.digest import digest
from foxflow.errors import must

SHADES = " .:-=+*#%@"
"""From the smallest value to the largest."""
WIDE, HIGH = 64, 8
"""Characters of a picture, at most."""
NOT_FINITE = "!"


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What dumped bytes hold. Numbers are float64; complex elements count as two."""

    elements: int
    nonfinite: int
    zeros: int
    smallest: float | None
    largest: float | None
    mean: float | None
    deviation: float | None
    sound: bool
    """The bytes match the digest."""
    picture: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A buffer at one capture point."""

    phase: str
    step: int
    k: int | None
    dtype: str
    shape: tuple[int, ...]
    digest: str
    values: Values | None
    """None where only the digest was kept."""


def groups(record: flow.Record) -> dict[str, dict[str, int]]:
    """How often each buffer was captured, by group, in the order of the run."""
    found: dict[str, dict[str, int]] = {}
    for batch in record.digests():
        for group, buffer in zip(batch["group"].to_pylist(), batch["buffer"].to_pylist(), strict=True):
            of_group = found.setdefault(group, {})
            of_group[buffer] = of_group.get(buffer, 0) + 1
    return found


def look(record: flow.Record, buffer: str) -> Iterator[Sight]:
    """Look at a buffer wherever it was captured.

    Args:
        record: complete or not.
        buffer: its name.

    Raises:
        Mistake: the record has no such buffer.
    """
    dumps, seen = set(record.dump_steps), False
    kept: dict[tuple[str, int], dict[tuple[int | None, int], bytes]] = {}
    for row in _rows(record.digests(), buffer):
        place = (row["phase"], row["step"])
        if place in dumps and place not in kept:
            found = _rows(record.dump(*place), buffer)
            kept = {place: {(one["k"], one["rank"]): one["data"] for one in found}}
        seen = True
        yield _sight(row, kept.get(place, {}).get((row["k"], row["rank"])))
    if not seen:
        names = sorted(name for group in groups(record).values() for name in group)
        near = [name for name in names if buffer.lower() in name.lower()][:8]
        do = f"Names like it: {', '.join(near)}." if near else "'foxflow show RUN' lists all."
        raise must("BUFFER", "be a buffer of the record", buffer, do)


def _rows(batches: Iterator[Any], buffer: str) -> Iterator[dict[str, Any]]:
    import pyarrow.compute as pc

    for batch in batches:
        yield from batch.filter(pc.equal(batch["buffer"], buffer)).to_pylist()


def _sight(row: dict[str, Any], data: bytes | None) -> Sight:
    shape = tuple(json.loads(row["shape"]))
    values = None if data is None else _values(row, shape, data)
    named = {name: row[name] for name in ("phase", "step", "k", "dtype", "digest")}
    return Sight(**named, shape=shape, values=values)


def _values(row: dict[str, Any], shape: tuple[int, ...], data: bytes) -> Values:
    found = numbers(row["dtype"], np.frombuffer(data, np.uint8).reshape(-1, SIZES.get(row["dtype"], 1)))
    finite = found[np.isfinite(found)]
    with np.errstate(all="ignore"):
        facts = [float(f(finite)) for f in (np.min, np.max, np.mean, np.std)] if finite.size else [None] * 4
    return Values(
        elements=int(found.size),
        nonfinite=int(found.size - finite.size),
        zeros=int((found == 0).sum()),
        smallest=facts[0],
        largest=facts[1],
        mean=facts[2],
        deviation=facts[3],
        sound=digest(data, row["dtype"], shape) == row["digest"],
        picture=_picture(found, shape),
    )


def _picture(found: Any, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Rows of characters: the last axis runs to the right, all others down; a character is the mean of its cells."""
    if not found.size:
        return ()
    grid = found.reshape(-1, found.size // math.prod(shape[:-1]))
    rows = np.array_split(np.arange(grid.shape[0]), min(HIGH, grid.shape[0]))
    columns = np.array_split(np.arange(grid.shape[1]), min(WIDE, grid.shape[1]))
    finite = found[np.isfinite(found)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    return tuple("".join(_shade(grid[np.ix_(r, c)], low, high) for c in columns) for r in rows)


def _shade(cell: Any, low: float, high: float) -> str:
    if not np.isfinite(cell).all():
        return NOT_FINITE
    if high / 2 <= low / 2:
        return SHADES[len(SHADES) // 2]
    at = float(np.mean(cell / 2 - low / 2)) / (high / 2 - low / 2)
    return SHADES[min(len(SHADES) - 1, max(0, int(at * len(SHADES))))]
