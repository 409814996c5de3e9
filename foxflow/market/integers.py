"""Lines of whole numbers in the form that data vendors write them, parsed by the compiled reader at memory's pace."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Batch:
    """Some lines: int64 [columns, rows], and their length in the file."""

    columns: NDArray[np.int64]
    used_bytes: int


def parse(data: pa.Buffer, start: int, columns: int, rows: int) -> Batch | None:
    """Parse lines of `-?[0-9]{1,18}` with commas between.

    Args:
        data: the file.
        start: byte of the first line's first character.
        columns: numbers a line.
        rows: at most so many lines.

    Returns:
        The lines up to the first one of another form; None where that is the first one, the file is at its end, or
        foxflow was not compiled.
    """
    library = _library()
    if library is None or start >= data.size:
        return None
    out, used = np.empty((columns, rows), np.int64), ctypes.c_int64()
    target = ctypes.c_void_p(out.ctypes.data)
    parsed = library.fox_parse_integers(data.address + start, data.size - start, columns, rows, target, used)
    return Batch(out[:, :parsed], used.value) if parsed else None


@functools.cache
def _library() -> Any:
    found = importlib.util.find_spec("foxflow._integers")
    if found is None or found.origin is None:
        return None
    library = ctypes.CDLL(found.origin)
    word = ctypes.c_int64
    library.fox_parse_integers.argtypes = (
        *(ctypes.c_void_p, word, word, word),
        *(ctypes.c_void_p, ctypes.POINTER(word)),
    )
    library.fox_parse_integers.restype = word
    return library
