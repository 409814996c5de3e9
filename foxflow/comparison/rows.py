"""Rows of two records as numpy columns, streamed, with one set of codes for the text of both."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from foxflow import flow
from foxflow.errors import CorruptRecord

Codes = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]

NO_K = -(2**63)
PHASES = (flow.TRAIN, flow.EVAL, flow.FINAL)
STEP_BITS = 60
TEXTS = ("group", "buffer", "dtype", "shape")


class Names:
    """Text <-> code of one column, shared by both sides, so that text compares as integers."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self.texts: list[str] = []

    def code(self, text: str) -> int:
        """The text's code, given at first sight."""
        if (found := self._codes.get(text)) is None:
            found = self._codes[text] = len(self.texts)
            self.texts.append(text)
        return found

    def column(self, column: Any) -> Codes:
        """Codes of a column of text, dictionary-encoded or not."""
        encoded = _dictionary(column)
        codes = [self.code(text) for text in encoded.dictionary.to_pylist()]
        indices = encoded.indices.to_numpy(zero_copy_only=False)
        if codes == list(range(len(codes))):
            return np.asarray(indices)
        return np.asarray(np.array(codes, dtype=np.int32).take(indices, mode="clip"))


Texts = dict[str, Names]
"""`Names` of each column in `TEXTS`."""


def texts() -> Texts:
    """Empty names for a comparison."""
    return {name: Names() for name in TEXTS}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Consecutive rows of one record; `place` orders steps (phase, then number), texts are codes."""

    place: Places
    k: Places
    rank: Codes
    order: Codes
    group: Codes
    buffer: Codes
    dtype: Codes
    shape: Codes
    digest: Any

    def __len__(self) -> int:
        return len(self.place)

    def part(self, start: int, stop: int) -> Block:
        """Rows start to stop, without a copy."""
        return Block(**{f.name: getattr(self, f.name)[start:stop] for f in dataclasses.fields(self)})

    def taken(self, at: Places) -> Block:
        """The rows at some indices."""
        columns = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        digest = columns.pop("digest").take(pa.array(at))
        return Block(**{name: column[at] for name, column in columns.items()}, digest=digest)


def joined(blocks: list[Block]) -> Block:
    """Blocks one after another as one."""
    if len(blocks) == 1:
        return blocks[0]
    names = [f.name for f in dataclasses.fields(Block) if f.name != "digest"]
    columns = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in names}
    return Block(**columns, digest=pa.concat_arrays([block.digest for block in blocks]))


def step_of(place: int) -> tuple[str, int]:
    """(phase, step) of a place."""
    return PHASES[place >> STEP_BITS], place % (1 << STEP_BITS)


def place_of(phase: str, step: int) -> int:
    """The order of a step in a run."""
    return (PHASES.index(phase) << STEP_BITS) + step


class Rows:
    """A record's rows, one batch read ahead in a thread; `head` is what was read and not yet taken."""

    def __init__(self, record: flow.Record, names: Texts, threads: Executor) -> None:
        self._record, self._names = record, names
        self._blocks: Iterator[Block] = filter(len, map(self._block, _ahead(record.digests(), threads)))
        self._last = -1
        self.head: Block | None = next(self._blocks, None)

    def _block(self, batch: Any) -> Block:
        columns = {name: self._names[name].column(batch.column(name)) for name in TEXTS}
        phase = _dictionary(batch.column("phase"))
        known = [PHASES.index(text) if text in PHASES else -1 for text in phase.dictionary.to_pylist()]
        phases = np.array(known, dtype=np.int64) << STEP_BITS
        place = batch.column("step").to_numpy(zero_copy_only=False)
        place = place + (phases if len(known) == 1 else phases[phase.indices.to_numpy(zero_copy_only=False)])
        if len(place):
            if min(known) < 0 or place[0] < self._last or (place[1:] < place[:-1]).any():
                raise CorruptRecord(self._record.path, "digests.parquet", "its steps are out of order")
            self._last = int(place[-1])
        k = batch.column("k").fill_null(NO_K).to_numpy(zero_copy_only=False)
        rank, order = (batch.column(name).to_numpy(zero_copy_only=False) for name in ("rank", "order"))
        return Block(place=place, k=k, rank=rank, order=order, digest=batch.column("digest"), **columns)

    def take(self, count: int) -> Block:
        """Take rows off the head, which holds at least as many."""
        head = self.head
        if head is None:
            raise IndexError("no rows left")
        self.head = head.part(count, len(head)) if count < len(head) else next(self._blocks, None)
        return head.part(0, count)

    def take_step(self) -> Block:
        """Take the rest of the step that the head begins with, over as many batches as it has."""
        place, parts = int(self.head.place[0]) if self.head is not None else -1, []
        while self.head is not None and self.head.place[0] == place:
            parts.append(self.take(int(np.searchsorted(self.head.place, place, side="right"))))
        return joined(parts)


def _ahead(batches: Iterator[Any], threads: Executor) -> Iterator[Any]:
    """The same batches, the next being read while one is worked on."""
    coming = threads.submit(next, batches, None)
    while (batch := coming.result()) is not None:
        coming = threads.submit(next, batches, None)
        yield batch


def _dictionary(column: Any) -> Any:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
