"""Digests and host copies of a step's buffers, made at the moment of capture.

On a GPU each capture point is one digest launch; the sums of a step come home in one copy at its end, while the next
step runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from foxflow import digest, flow
from foxflow.ops import digest as sums

DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.bool: "bool",
    torch.complex64: "c64",
    torch.complex128: "c128",
    torch.float8_e4m3fn: "f8_e4m3fn",
    torch.float8_e5m2: "f8_e5m2",
}
"""torch dtype -> its name in a record."""


def host_bytes(x: Tensor) -> bytes:
    """The logical row-major little-endian bytes of a tensor, copied."""
    flat = x.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(torch.uint8).cpu().numpy().tobytes() if flat.numel() else b""


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a buffer stands in a step: its number in dataflow order, its group, and whether its bytes are kept."""

    order: int
    group: str
    dumped: bool


@dataclass(frozen=True, slots=True)
class Note:
    """What is known of a captured buffer before its sums are home."""

    k: int | None
    slot: Slot
    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    data: bytes | None


class Rings:
    """The running sums of buffers of which the same few rows change at a time.

    Args:
        buffers: [C, …] by name; the rows [begin, begin + rows) are about to be written again and again.
    """

    def __init__(self, buffers: Mapping[str, Tensor]) -> None:
        self.buffers = dict(buffers)
        self.sums = sums.sums(list(buffers.values()))
        self._row_bytes = [x[0].numel() * x.element_size() for x in buffers.values()]

    def before(self, begin: int, rows: int) -> None:
        """Take the old bytes of some rows out of the sums."""
        self.sums -= self._ranges(begin, rows)

    def after(self, begin: int, rows: int) -> None:
        """Put the new bytes of some rows into the sums."""
        self.sums += self._ranges(begin, rows)

    def _ranges(self, begin: int, rows: int) -> Tensor:
        begins = [begin * size for size in self._row_bytes]
        ends = [(begin + rows) * size for size in self._row_bytes]
        return sums.range_sums(list(self.buffers.values()), begins, ends)


@dataclass(frozen=True, slots=True)
class Taken:
    """Buffers that were taken, with their sums on the device."""

    notes: tuple[Note, ...]
    sums: Tensor | None


class Capture:
    """Collects one step's buffers; `captured` turns them into what a frozen `Step` holds."""

    def __init__(self) -> None:
        self._notes: list[Note] = []
        self._sums: list[Tensor] = []

    def take(self, buffers: Mapping[str, Tensor], slots: Mapping[str, Slot], k: int | None = None) -> None:
        """Digest buffers now, and copy those that are dumped; what has no slot is not recorded.

        Args:
            buffers: by name; all on one device.
            slots: by name.
            k: the iteration of the inner loop.
        """
        wanted = [(name, x) for name, x in buffers.items() if name in slots]
        if not wanted:
            return
        self._sums.append(sums.sums([x for _, x in wanted]))
        self._notes += [_note(name, x, slots[name], k) for name, x in wanted]

    def take_rings(self, rings: Rings, slots: Mapping[str, Slot]) -> None:
        """Take ring buffers by their running sums; all of them have slots, or none."""
        found = [_note(name, x, slots[name], None) for name, x in rings.buffers.items() if name in slots]
        if found:
            self._notes += found
            self._sums.append(rings.sums.clone())

    def add(self, taken: Taken) -> None:
        """Take over what another capture has taken."""
        if taken.sums is not None:
            self._notes += taken.notes
            self._sums.append(taken.sums)

    def taken(self) -> Taken:
        """Hand over what was taken, and start anew."""
        taken = Taken(tuple(self._notes), torch.cat(self._sums) if self._sums else None)
        self._notes, self._sums = [], []
        return taken


def _note(name: str, x: Tensor, slot: Slot, k: int | None) -> Note:
    data = host_bytes(x) if slot.dumped else None
    return Note(k, slot, name, DTYPES[x.dtype], tuple(x.shape), x.numel() * x.element_size(), data)


class Arriving:
    """Tensors on their way to the host; the device goes on meanwhile.

    Args:
        tensors: copied as the stream of their device reaches this point.
    """

    def __init__(self, *tensors: Tensor) -> None:
        self._host = [_started(x) for x in tensors]
        self._event = torch.Event("cuda") if any(x.is_cuda for x in tensors) else None
        if self._event is not None:
            self._event.record()

    def wait(self) -> list[Tensor]:
        """The copies, as soon as they are whole."""
        if self._event is not None:
            self._event.synchronize()
        return self._host


def _started(x: Tensor) -> Tensor:
    """A copy in page-locked memory, which the host must not read yet; on a CPU a plain copy."""
    return torch.empty(x.shape, dtype=x.dtype, pin_memory=x.is_cuda).copy_(x, non_blocking=True)


def captured(notes: Sequence[Note], home: Tensor | None) -> tuple[flow.Captured, ...]:
    """Buffers with their digests, in dataflow order.

    Args:
        notes: of `Taken`.
        home: its sums, on the host.
    """
    if home is None:
        return ()
    heads = np.array([digest.head(note.dtype, note.shape, note.nbytes) for note in notes], np.uint64)
    texts = digest.finish(home.numpy().view(np.uint64), heads)
    found = [
        flow.Captured(
            k=note.k,
            order=note.slot.order,
            group=note.slot.group,
            buffer=note.name,
            dtype=note.dtype,
            shape=note.shape,
            nbytes=note.nbytes,
            digest=text,
            data=note.data,
        )
        for note, text in zip(notes, texts, strict=True)
    ]
    return tuple(sorted(found, key=lambda c: c.order))


def slots(rows: Sequence[tuple[str, str]], first: int, dumped: Iterable[str]) -> dict[str, Slot]:
    """Number buffers in order.

    Args:
        rows: (name, group) in dataflow order.
        first: number of the first.
        dumped: names whose bytes are kept.
    """
    kept = set(dumped)
    return {name: Slot(first + i, group, name in kept) for i, (name, group) in enumerate(rows)}
