"""Digests and host copies of a step's buffers, made at the moment of capture.

On a GPU each capture point is one digest launch; the sums of a step come home in one copy at its end.
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


class Ring:
    """The running sums of a buffer of which a few rows change at a time.

    Args:
        buffer: [C, …]; the rows [begin, begin + rows) are about to be written again and again.
    """

    def __init__(self, buffer: Tensor) -> None:
        self.buffer = buffer
        self.sums = sums.sums([buffer])
        self._row_bytes = buffer[0].numel() * buffer.element_size()

    def before(self, begin: int, rows: int) -> None:
        """Take the old bytes of some rows out of the sums."""
        self.sums -= self._range(begin, rows)

    def after(self, begin: int, rows: int) -> None:
        """Put the new bytes of some rows into the sums."""
        self.sums += self._range(begin, rows)

    def _range(self, begin: int, rows: int) -> Tensor:
        return sums.range_sums(self.buffer, begin * self._row_bytes, (begin + rows) * self._row_bytes)


class Capture:
    """Collects one step's buffers and turns them into a frozen `Step`."""

    def __init__(self) -> None:
        self._taken: list[tuple[int | None, Slot, str, str, tuple[int, ...], int, bytes | None]] = []
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
        for name, x in wanted:
            self._note(name, x, slots[name], k)

    def take_rings(self, rings: Mapping[str, Ring], slots: Mapping[str, Slot]) -> None:
        """Take ring buffers by their running sums."""
        for name, ring in rings.items():
            if name in slots:
                self._sums.append(ring.sums.clone())
                self._note(name, ring.buffer, slots[name], None)

    def _note(self, name: str, x: Tensor, slot: Slot, k: int | None) -> None:
        data = host_bytes(x) if slot.dumped else None
        self._taken.append((k, slot, name, DTYPES[x.dtype], tuple(x.shape), x.numel() * x.element_size(), data))

    def finish(self) -> tuple[flow.Captured, ...]:
        """Bring the sums home, and hand over what was taken, in dataflow order."""
        if not self._taken:
            return ()
        home = torch.cat(self._sums).cpu().numpy().view(np.uint64)
        heads = np.array([digest.head(dtype, shape, size) for _, _, _, dtype, shape, size, _ in self._taken], np.uint64)
        texts = digest.finish(home, heads)
        captured = [
            flow.Captured(
                k=k,
                order=slot.order,
                group=slot.group,
                buffer=name,
                dtype=dtype,
                shape=shape,
                nbytes=size,
                digest=text,
                data=data,
            )
            for (k, slot, name, dtype, shape, size, data), text in zip(self._taken, texts, strict=True)
        ]
        self._taken, self._sums = [], []
        return tuple(sorted(captured, key=lambda c: c.order))


def slots(rows: Sequence[tuple[str, str]], first: int, dumped: Iterable[str]) -> dict[str, Slot]:
    """Number buffers in order.

    Args:
        rows: (name, group) in dataflow order.
        first: number of the first.
        dumped: names whose bytes are kept.
    """
    kept = set(dumped)
    return {name: Slot(first + i, group, name in kept) for i, (name, group) in enumerate(rows)}
