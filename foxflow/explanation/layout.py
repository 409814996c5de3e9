"""Which buffers a record captured at each step, read from its digests in one stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from foxflow import flow

NO_K = -1

Place = tuple[str, int | None]
"""A buffer in a step: its name and the iteration, None outside the inner loop."""


class Layout:
    """The places of one step; steps of one layout share it.

    Args:
        places: in the order of capture.
    """

    def __init__(self, places: list[Place]) -> None:
        self.places = frozenset(places)
        found: dict[str, tuple[list[int], bool]] = {}
        for name, k in places:
            inner, outside = found.get(name, ([], False))
            found[name] = (inner + ([] if k is None else [k]), outside or k is None)
        self.iterations = {name: tuple(sorted(inner)) for name, (inner, _) in found.items()}
        """Buffer -> the iterations in which it was captured; empty where it was captured outside the inner loop."""


At = tuple[str, int]
"""Phase and step."""


def layouts(record: flow.Record) -> list[tuple[At, Layout]]:
    """Every step's layout, in the order of the record."""
    known: dict[bytes, Layout] = {}
    names: dict[str, int] = {}
    found: list[tuple[At, Layout]] = []
    at: At | None = None
    parts: list[bytes] = []
    for piece_at, part in _pieces(record, names):
        if at is not None and piece_at != at:
            found.append((at, _layout(b"".join(parts), known, names)))
            parts = []
        at = piece_at
        parts.append(part)
    if at is not None:
        found.append((at, _layout(b"".join(parts), known, names)))
    return found


def _pieces(record: flow.Record, names: dict[str, int]) -> Iterator[tuple[At, bytes]]:
    """(phase, step) and the rows' (buffer code, k) as bytes; a step may come in several pieces."""
    for batch in record.digests():
        buffer, phase = (_dictionary(batch.column(name)) for name in ("buffer", "phase"))
        codes = np.array([names.setdefault(text, len(names)) for text in buffer.dictionary.to_pylist()], np.int64)
        k = batch.column("k").fill_null(NO_K).to_numpy(zero_copy_only=False)
        rows = np.stack([codes.take(buffer.indices.to_numpy(zero_copy_only=False)), k], 1)
        step, phases = (x.to_numpy(zero_copy_only=False) for x in (batch.column("step"), phase.indices))
        cuts = np.flatnonzero((step[1:] != step[:-1]) | (phases[1:] != phases[:-1])) + 1
        for start, stop in zip((0, *cuts.tolist()), (*cuts.tolist(), len(step)), strict=True):
            if stop > start:
                yield (phase.dictionary[int(phases[start])].as_py(), int(step[start])), rows[start:stop].tobytes()


def _dictionary(column: Any) -> Any:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _layout(rows: bytes, known: dict[bytes, Layout], names: dict[str, int]) -> Layout:
    if rows not in known:
        texts = list(names)
        pairs = np.frombuffer(rows, np.int64).reshape(-1, 2).tolist()
        known[rows] = Layout([(texts[code], None if k == NO_K else k) for code, k in pairs])
    return known[rows]
