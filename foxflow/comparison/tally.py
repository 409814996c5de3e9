"""From paired rows to one verdict per step, group and buffer, in the order of A."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow.compute as pc

from foxflow import flow
from foxflow.comparison.dumps import Dumps, Key, Stated
from foxflow.comparison.elements import Apart
from foxflow.comparison.pairing import Pair
from foxflow.comparison.rows import NO_K, Block, Places, Texts, place_of, step_of

Counts = tuple[tuple[int, int], ...]
"""(group code, rows compared) in the order of the run."""


@dataclass(slots=True)
class _Open:
    """The step that rows are coming in for."""

    place: int
    pieces: list[Counts] = field(default_factory=list)
    unlike: list[tuple[Block, int, str]] = field(default_factory=list)
    """(block, row, verdict) of each row that is not EQUAL."""
    stated: dict[Key, Stated] = field(default_factory=dict)


class Tally:
    """Counts pairs of rows; `steps` is complete after `finish`."""

    def __init__(self, names: Texts, dumps: Dumps) -> None:
        self._names, self._dumps = names, dumps
        self._dumped = {place_of(*at) for at in dumps.common()}
        self._open: _Open | None = None
        self._alike: dict[Counts, tuple[flow.GroupDiff, ...]] = {}
        self.steps: list[flow.StepDiff] = []
        self.compared = self.differing = self.missing = 0
        self.first: dict[str, flow.Where] = {}
        """The first place of each verdict but EQUAL."""

    def add(self, pair: Pair) -> None:
        """Count an aligned pair of blocks, or a block without partner."""
        a, b = pair
        block = a if a is not None else b
        if block is None:
            return
        at, verdict = np.arange(len(block)), flow.MISSING
        if a is not None and b is not None:
            at, verdict = _unequal(a, b), flow.DIVERGE
            self.compared += len(a)
        bounds = [0, *(np.flatnonzero(np.diff(block.place)) + 1).tolist(), len(block)]
        cuts = np.searchsorted(at, bounds).tolist()
        pieces = _pieces(block, bounds, len(self._names["group"].texts))
        for i, piece in enumerate(pieces):
            step = self._step(int(block.place[bounds[i]]))
            step.pieces.append(piece if verdict == flow.DIVERGE else tuple((group, 0) for group, _ in piece))
            step.unlike += [(block, int(row), verdict) for row in at[cuts[i] : cuts[i + 1]]]
            if step.place in self._dumped:
                step.stated |= self._stated(block, pair, bounds[i], bounds[i + 1])

    def finish(self) -> None:
        """Close the last step."""
        if self._open is not None:
            self._close(self._open)
            self._open = None

    def _step(self, place: int) -> _Open:
        if self._open is None or self._open.place != place:
            self.finish()
            self._open = _Open(place)
        return self._open

    def _close(self, step: _Open) -> None:
        phase, number = step_of(step.place)
        measured = self._dumps.inspect(phase, number, step.stated) if step.place in self._dumped else {}
        if not step.unlike and len(step.pieces) == 1:
            groups = self._equal(step.pieces[0])
        else:
            groups = self._grouped(step, measured)
        self.steps.append(flow.StepDiff(step=number, phase=phase, groups=groups))

    def _equal(self, piece: Counts) -> tuple[flow.GroupDiff, ...]:
        """Groups of a step without differences: steps are mostly alike, so they share them."""
        if (known := self._alike.get(piece)) is None:
            texts = self._names["group"].texts
            known = tuple(flow.GroupDiff(group=texts[g], verdict=flow.EQUAL, compared=n) for g, n in piece)
            self._alike[piece] = known
        return known

    def _grouped(self, step: _Open, measured: dict[Key, Apart]) -> tuple[flow.GroupDiff, ...]:
        compared: dict[int, int] = {}
        for piece in step.pieces:
            for group, count in piece:
                compared[group] = compared.get(group, 0) + count
        buffers: dict[int, list[flow.BufferDiff]] = {group: [] for group in compared}
        phase, number = step_of(step.place)
        for block, row, verdict in step.unlike:
            found, group = self._buffer(block, row, verdict, measured), int(block.group[row])
            buffers[group].append(found)
            where = flow.Where(
                step=number, k=found.k, group=self._names["group"].texts[group], buffer=found.name, phase=phase
            )
            self.first.setdefault(verdict, where)
            self.differing += verdict == flow.DIVERGE
            self.missing += verdict == flow.MISSING
        return tuple(self._group(group, compared[group], found) for group, found in buffers.items())

    def _group(self, group: int, compared: int, buffers: list[flow.BufferDiff]) -> flow.GroupDiff:
        verdicts = {buffer.verdict for buffer in buffers}
        verdict = next((v for v in (flow.DIVERGE, flow.MISSING) if v in verdicts), flow.EQUAL)
        name = self._names["group"].texts[group]
        return flow.GroupDiff(group=name, verdict=verdict, compared=compared, buffers=tuple(buffers))

    def _buffer(self, block: Block, row: int, verdict: str, measured: dict[Key, Apart]) -> flow.BufferDiff:
        shape = tuple(json.loads(self._names["shape"].texts[block.shape[row]]))
        key = self._key(block, row)
        found = measured.get(key)
        return flow.BufferDiff(
            name=key[2],
            k=key[0],
            verdict=verdict,
            dtype=self._names["dtype"].texts[block.dtype[row]],
            shape=shape,
            elements=math.prod(shape),
            differing=found.differing if found else None,
            max_abs=found.max_abs if found else None,
            max_ulp=found.max_ulp if found else None,
            first_index=found.first_index if found else None,
            permutation=found.permutation if found else None,
            nonfinite=found.nonfinite if found else None,
            order=int(block.order[row]),
        )

    def _key(self, block: Block, row: int) -> Key:
        k = int(block.k[row])
        return (None if k == NO_K else k), int(block.rank[row]), self._names["buffer"].texts[block.buffer[row]]

    def _stated(self, block: Block, pair: Pair, start: int, stop: int) -> dict[Key, Stated]:
        sides: list[list[Any]] = [
            [None] * (stop - start) if side is None else side.digest.slice(start, stop - start).to_pylist()
            for side in pair
        ]
        groups = [self._names["group"].texts[group] for group in block.group[start:stop]]
        rows = zip(range(start, stop), groups, *sides, strict=True)
        return {self._key(block, row): Stated(group=group, a=a, b=b) for row, group, a, b in rows}


def _unequal(a: Block, b: Block) -> Places:
    """Rows whose digest, dtype or shape differ; a null digest differs from all."""
    form = (a.dtype == b.dtype) & (a.shape == b.shape)
    if form.all() and not a.digest.null_count and a.digest.equals(b.digest):
        return np.empty(0, dtype=np.int64)
    same = pc.equal(a.digest, b.digest).fill_null(False).to_numpy(zero_copy_only=False)
    return np.flatnonzero(~(same & form))


def _pieces(block: Block, bounds: list[int], groups: int) -> list[Counts]:
    """For each step in a block: its groups in order of appearance, with their rows."""
    steps = len(bounds) - 1
    begins = np.ones(len(block), dtype=bool)
    np.not_equal(block.group[1:], block.group[:-1], out=begins[1:])
    begins[bounds[:-1]] = True
    starts = np.flatnonzero(begins)
    key = (np.searchsorted(bounds, starts, side="right") - 1) * groups + block.group[starts]
    lengths = np.diff(starts, append=len(block))
    counts = np.bincount(key, weights=lengths, minlength=steps * groups).astype(np.int64).reshape(steps, groups)
    first = np.full(steps * groups, len(starts))
    first[key[::-1]] = np.arange(len(starts))[::-1]
    order = first.reshape(steps, groups).argsort(axis=1, kind="stable")
    known: dict[bytes, Counts] = {}
    pieces = []
    for i in range(steps):
        seen = counts[i].tobytes() + order[i].tobytes()
        if seen not in known:
            known[seen] = tuple((int(g), int(counts[i, g])) for g in order[i] if counts[i, g])
        pieces.append(known[seen])
    return pieces
