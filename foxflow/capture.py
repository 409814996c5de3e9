"""Digests and host copies of a step's buffers, made at the moment of capture.

On a GPU each capture point is one digest launch, on a branch of the step; all add to one tensor of sums, which is
cleared once a step and comes home in one copy at its end, while the next step runs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from foxflow import digest, flow
from foxflow.branch import Branch
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
CLEARED = 1024
"""Rows of sums that are set to zero at once; a step of the trainer takes some 500."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """What is known of the buffers of one take before they are taken; equal only to itself."""

    k: int | None
    names: tuple[str, ...]
    slots: tuple[Slot, ...]
    dtypes: tuple[torch.dtype, ...]
    shapes: tuple[tuple[int, ...], ...]


class Slots:
    """Where the buffers of a capture point stand; keeps the forms of what was taken by it.

    Args:
        by_name: what has no slot is not recorded.
    """

    def __init__(self, by_name: Mapping[str, Slot]) -> None:
        self.by_name = dict(by_name)
        self._dumps = any(slot.dumped for slot in by_name.values())
        self._forms: dict[tuple[object, ...], Form] = {}

    def note(self, k: int | None, buffers: Mapping[str, Tensor]) -> tuple[Note, list[Tensor]]:
        """What there is to say of those buffers that have slots, with copies of those that are dumped; and those."""
        names = tuple([name for name in buffers if name in self.by_name])
        kept = [buffers[name] for name in names]
        key = (k, names, tuple([x.dtype for x in kept]), tuple([x.shape for x in kept]))
        if (form := self._forms.get(key)) is None:
            slots, shapes = tuple(self.by_name[name] for name in names), tuple(tuple(x.shape) for x in kept)
            form = self._forms[key] = Form(k, names, slots, key[2], shapes)
        if not self._dumps:
            return Note(form, None), kept
        copies = [host_bytes(x) if slot.dumped else None for x, slot in zip(kept, form.slots, strict=True)]
        return Note(form, tuple(copies)), kept


@dataclass(frozen=True, slots=True)
class Note:
    """What is known of the buffers of one take before their sums are home."""

    form: Form
    data: tuple[bytes | None, ...] | None
    """Copies of those that are dumped; None where none is."""


class Rings:
    """The running sums of buffers of which each step writes the next few rows.

    Args:
        buffers: [C, …] by name.
        turns: steps after which the first rows are written again; a step writes C / turns of them.
    """

    def __init__(self, buffers: Mapping[str, Tensor], turns: int) -> None:
        self.buffers, self._turns = dict(buffers), turns
        self.sums = sums.sums(list(buffers.values()))

    def before(self, step: Tensor) -> None:
        """Take the old bytes of the step's rows out of the sums; `step` is an int64 scalar on their device."""
        self._add(step, away=True)

    def after(self, step: Tensor) -> None:
        """Put the new bytes of the step's rows into the sums."""
        self._add(step)

    def astray(self) -> Tensor:
        """Of each buffer, whether its running sum is no longer that of all its bytes; bool, on their device."""
        return (sums.sums(list(self.buffers.values())) != self.sums).any(1)

    def _add(self, step: Tensor, *, away: bool = False) -> None:
        sums.add_turn(self.sums, list(self.buffers.values()), step, self._turns, away=away)


@dataclass(frozen=True, slots=True)
class Taken:
    """Buffers that were taken, with their sums on the device."""

    notes: tuple[Note, ...]
    sums: tuple[Tensor, ...]
    """int64 [buffers, 2], one after another."""


class Capture:
    """Collects one step's buffers; `captured` turns them into what a frozen `Step` holds.

    Args:
        branch: digests run on it: what was taken must not change before it is joined, which `taken` does too.
    """

    def __init__(self, branch: Branch) -> None:
        self._branch = branch
        self._notes: list[Note] = []
        self._sums: list[Tensor] = []
        self._used = 0

    def take(self, buffers: Mapping[str, Tensor], slots: Slots, k: int | None = None) -> None:
        """Digest buffers now, and copy those that are dumped; what has no slot is not recorded.

        Args:
            buffers: by name; all on one device.
            slots: by name.
            k: the iteration of the inner loop.
        """
        note, wanted = slots.note(k, buffers)
        if wanted:
            self._notes.append(note)
            with self._branch.beside(*wanted):
                sums.add(self._rows(len(wanted), wanted[0].device), wanted)

    def take_rings(self, rings: Rings, slots: Slots) -> None:
        """Take ring buffers by their running sums; all of them have slots, or none."""
        note, wanted = slots.note(None, rings.buffers)
        if wanted:
            self._notes.append(note)
            with self._branch.beside():
                self._rows(len(wanted), rings.sums.device).copy_(rings.sums)

    def taken(self) -> Taken:
        """Hand over what was taken, and start anew."""
        self._branch.join()
        self._close()
        taken = Taken(tuple(self._notes), tuple(self._sums))
        self._notes, self._sums = [], []
        return taken

    def _rows(self, count: int, device: torch.device) -> Tensor:
        """The next rows for sums, at zero."""
        if not self._sums or self._used + count > len(self._sums[-1]):
            self._close()
            self._sums.append(torch.zeros(max(count, CLEARED), 2, dtype=torch.int64, device=device))
            self._used = 0
        self._used += count
        return self._sums[-1][self._used - count : self._used]

    def _close(self) -> None:
        if self._sums:
            self._sums[-1] = self._sums[-1][: self._used]


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


def captured(notes: Sequence[Note], home: Sequence[Tensor]) -> tuple[flow.Captured, ...]:
    """Buffers with their digests, in dataflow order, as `flow.Buffers`: the type names the rows that it stands for.

    Args:
        notes: of `Taken`.
        home: its sums, on the host.
    """
    if not notes:
        return ()
    columns, at, heads = _columns(tuple([note.form for note in notes]))
    data = None
    if any(note.data is not None for note in notes):
        copies = [copy for note in notes for copy in note.data or (None,) * len(note.form.names)]
        data = tuple([copies[i] for i in at])
    digests = digest.finish(torch.cat(list(home)).numpy().view(np.uint64)[at], heads)
    return cast("tuple[flow.Captured, ...]", flow.Buffers(columns=columns, digests=digests, data=data))


@functools.lru_cache(maxsize=256)
def _columns(forms: tuple[Form, ...]) -> tuple[flow.Columns, npt.NDArray[np.intp], digest.Sums]:
    """The columns of takes one after another in dataflow order, where each row stood in them, and digest heads."""
    rows = [(form, i) for form in forms for i in range(len(form.names))]
    at = sorted(range(len(rows)), key=lambda row: rows[row][0].slots[rows[row][1]].order)
    rows = [rows[i] for i in at]
    shapes, dtypes = tuple(form.shapes[i] for form, i in rows), [form.dtypes[i] for form, i in rows]
    columns = flow.Columns(
        k=tuple(form.k for form, _ in rows),
        order=tuple(form.slots[i].order for form, i in rows),
        group=tuple(form.slots[i].group for form, i in rows),
        buffer=tuple(form.names[i] for form, i in rows),
        dtype=tuple(DTYPES[dtype] for dtype in dtypes),
        shape=shapes,
        nbytes=tuple(math.prod(shape) * dtype.itemsize for shape, dtype in zip(shapes, dtypes, strict=True)),
    )
    heads = map(digest.head, columns.dtype, columns.shape, columns.nbytes)
    return columns, np.array(at, np.intp), np.fromiter(heads, np.uint64, len(rows))


def slots(rows: Sequence[tuple[str, str]], first: int, dumped: Iterable[str]) -> Slots:
    """Number buffers in order.

    Args:
        rows: (name, group) in dataflow order.
        first: number of the first.
        dumped: names whose bytes are kept.
    """
    kept = set(dumped)
    return Slots({name: Slot(first + i, group, name in kept) for i, (name, group) in enumerate(rows)})
