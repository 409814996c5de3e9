"""What the writer makes once of the columns that steps share, and what it asks of each step's bytes."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from foxflow import digest, flow
from foxflow.errors import must
from foxflow.record import layout

KEPT = 64
"""Forms kept at once; one that comes back later is made and written anew."""
LARGEST_DUMP_BYTES = 2**31 - 2**16
"""What fits into one page of a Parquet file with its lengths and levels."""


@dataclasses.dataclass(slots=True)
class Form:
    """Columns that were found sound, ready to be written."""

    number: int
    rows: Any
    """A batch of `layout.FORM_COLUMNS`."""
    counted: npt.NDArray[np.intp] | None
    """Which of them make the fingerprint; None where all do."""
    written: bool = False
    """Whether the running stream holds them."""


class Forms:
    """Makes forms, each once.

    Args:
        names: buffers that make the fingerprint; None where all do.
        rank: the process's number in a run over several.
    """

    def __init__(self, names: Collection[str] | None, rank: int) -> None:
        self._names, self._rank, self._made = names, rank, 0
        self.of = functools.lru_cache(maxsize=KEPT)(self._of)

    def _of(self, columns: flow.Columns) -> Form:
        """The form of some columns.

        Raises:
            Mistake: a buffer is there twice for one k, or contradicts itself.
        """
        places = list(zip(columns.buffer, columns.k, strict=True))
        if len(set(places)) < len(places):
            buffer, k = next(place for place in places if places.count(place) > 1)
            raise must(f"buffer {buffer}", "be there once per k", f"k {k} twice", "Number them by k.")
        for facts in zip(columns.buffer, columns.dtype, columns.shape, columns.nbytes, strict=True):
            _check(*facts)
        counted = None
        if self._names is not None and not set(columns.buffer) <= set(self._names):
            counted = np.flatnonzero([name in self._names for name in columns.buffer])
        self._made += 1
        return Form(self._made, layout.form(columns, self._rank), counted)


def _check(name: str, dtype: str, shape: tuple[int, ...], nbytes: int) -> None:
    if dtype not in digest.DTYPES:
        do = "Log its raw bits as integers."
        raise must(f"buffer {name}", f"have a dtype of {', '.join(digest.DTYPES)}", dtype, do)
    if (size := math.prod(shape) * digest.DTYPES[dtype][1]) != nbytes:
        raise must(f"buffer {name}", f"hold {size} bytes for {dtype} {list(shape)}", nbytes)


def check_bytes(buffers: flow.Buffers) -> None:
    """Refuse bytes that do not fit their columns.

    Raises:
        Mistake: a digest or a dumped buffer is too short or too long.
    """
    if len(buffers.digests) != 16 * len(buffers):
        raise must("digests", f"hold {16 * len(buffers)} bytes", len(buffers.digests))
    columns = buffers.columns
    for name, nbytes, copy in zip(columns.buffer, columns.nbytes, buffers.data or (), strict=buffers.data is not None):
        if copy is not None and len(copy) != nbytes:
            raise must(f"buffer {name}", f"hold {nbytes} bytes", len(copy), "Copy it contiguous.")
        if copy is not None and nbytes > LARGEST_DUMP_BYTES:
            do = "Leave it out of the dump; its digest is kept."
            raise must(f"buffer {name}", "be under 2 GiB to be dumped", f"{nbytes} bytes", do)
