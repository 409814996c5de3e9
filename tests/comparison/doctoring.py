"""Pairs of records, and ways to doctor one of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from record.making import record, steps

from foxflow.digest import digest

DUMP = frozenset({2})
Table = Callable[[pa.Table], pa.Table]


def pair(tmp_path: Path) -> tuple[Path, Path]:
    record(tmp_path / "a", steps(dump=DUMP))
    record(tmp_path / "b", steps(dump=DUMP))
    return tmp_path / "a", tmp_path / "b"


def flip(step: int, k: int | None, buffer: str, array: np.ndarray) -> np.ndarray:
    """One bit of one element: step 2, q_logits[1, 2], k 1."""
    if (step, k, buffer) == (2, 1, "q_logits"):
        array.view(np.uint32)[1, 2] ^= 1
    return array


def edited(table: pa.Table, name: str, change: Callable[[list[object]], None]) -> pa.Table:
    values = table[name].to_pylist()
    change(values)
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(name), pa.array(values, table.schema.field(name).type))


def flipped_dump(table: pa.Table) -> pa.Table:
    def first_bit(values: list[object]) -> None:
        values[0] = bytes([values[0][0] ^ 1]) + values[0][1:]  # type: ignore[index]

    return edited(table, "data", first_bit)


def redigested(table: pa.Table) -> pa.Table:
    texts = [
        digest(d, t, tuple(json.loads(s)))
        for d, t, s in zip(*(table[name].to_pylist() for name in ("data", "dtype", "shape")), strict=True)
    ]
    return edited(table, "digest", lambda values: values.__setitem__(slice(None), texts))
