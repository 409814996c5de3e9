"""How far two buffers of one dtype and shape lie apart, element by element, for every dtype.

Bytes decide what differs: -0.0 is not 0.0, a NaN equals a NaN of the same payload.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SIZES = {
    **{"c128": 16, "u64": 8, "i64": 8, "f64": 8, "c64": 8, "u32": 4, "i32": 4, "f32": 4},
    **{"u16": 2, "i16": 2, "f16": 2, "bf16": 2},
}
"""Bytes an element; 1 for the rest."""

FLOATS = {"f16": "<f2", "f32": "<f4", "f64": "<f8"}
PARTS = {"c64": "f32", "c128": "f64"}
"""A complex element is two floats: real, imaginary."""

F8 = {"f8_e4m3fn": (4, 7, False), "f8_e5m2": (5, 15, False), "f8_e4m3fnuz": (4, 8, True), "f8_e5m2fnuz": (5, 16, True)}
"""8-bit floats: bits of the exponent, its bias, whether the only NaN is 0x80 and infinity does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """What `flow.BufferDiff` says of a differing buffer of which both sides' bytes are there."""

    differing: int
    max_abs: float | str | None
    max_ulp: int | None
    first_index: tuple[int, ...] | None
    permutation: bool
    nonfinite: tuple[int, int]


def apart(dtype: str, shape: tuple[int, ...], a: Any, b: Any) -> Apart:
    """Measure the difference of two buffers.

    Args:
        dtype: a name of the digest's dtypes, the same on both sides.
        shape: sizes of the axes, the same on both sides.
        a: A's bytes, row-major, little-endian.
        b: B's bytes.

    Returns:
        Integers and bools apart by exact integers; floats by float64, in which "nan" and "inf" are words;
        complex numbers by the modulus of the difference, and by the farther of the two parts in ULP.
    """
    size = SIZES.get(dtype, 1)
    rows_a, rows_b = (np.frombuffer(data, np.uint8).reshape(-1, size) for data in (a, b))
    nonfinite = (_nonfinite(dtype, rows_a), _nonfinite(dtype, rows_b))
    at = np.flatnonzero(_unequal(rows_a, rows_b))
    if at.size == 0:
        return Apart(differing=0, max_abs=None, max_ulp=None, first_index=None, permutation=False, nonfinite=nonfinite)
    rows_a, rows_b = rows_a[at], rows_b[at]
    return Apart(
        differing=int(at.size),
        max_abs=_max_abs(dtype, rows_a, rows_b),
        max_ulp=_max_ulp(dtype, rows_a, rows_b),
        first_index=tuple(int(i) for i in np.unravel_index(int(at[0]), shape)),
        permutation=_sorted(rows_a) == _sorted(rows_b),
        nonfinite=nonfinite,
    )


def numbers(dtype: str, rows: Array) -> Array:
    """The elements as float64, for looking at: large integers are rounded, complex ones are two.

    Args:
        dtype: a name of the digest's dtypes.
        rows: uint8[elements, bytes an element], little-endian.
    """
    part, rows = _parts(dtype, rows)
    floats = _floats(part, rows)
    if floats is not None:
        return floats
    words = _words(rows)
    return (words.view(f"<i{words.itemsize}") if dtype[0] == "i" else words).astype(np.float64)


def _unequal(rows_a: Array, rows_b: Array) -> Array:
    if rows_a.shape[1] > 8:
        return np.asarray((rows_a != rows_b).any(axis=1))
    return np.asarray(_words(rows_a) != _words(rows_b))


def _words(rows: Array) -> Array:
    """Rows of 1, 2, 4 or 8 bytes as unsigned integers."""
    return np.ascontiguousarray(rows).view(f"<u{rows.shape[1]}").reshape(-1)


def _sorted(rows: Array) -> bytes:
    """The elements in one order, to tell whether two sides hold the same ones; places that are equal cancel out."""
    if rows.shape[1] <= 8:
        return np.sort(_words(rows)).tobytes()
    pairs = np.ascontiguousarray(rows).view("<u8")
    return pairs[np.lexsort((pairs[:, 0], pairs[:, 1]))].tobytes()


def _f8_values(dtype: str) -> Array:
    """The values of all 256 bit patterns of an 8-bit float."""
    exponent_bits, bias, finite_only = F8[dtype]
    mantissa_bits = 7 - exponent_bits
    values = np.empty(256)
    for bits in range(256):
        exponent, mantissa = (bits >> mantissa_bits) % (1 << exponent_bits), bits % (1 << mantissa_bits)
        fraction = mantissa / (1 << mantissa_bits) + (exponent > 0)
        values[bits] = math.copysign(fraction * 2.0 ** (max(exponent, 1) - bias), -1 if bits & 0x80 else 1)
    if finite_only:
        values[0x80] = np.nan
    elif dtype == "f8_e4m3fn":
        values[[0x7F, 0xFF]] = np.nan
    else:
        values[[0x7C, 0xFC]] = np.inf, -np.inf
        values[[0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF]] = np.nan
    return values


def _floats(dtype: str, rows: Array) -> Array | None:
    """Elements as float64, exactly; None for integers and bools."""
    if dtype in FLOATS:
        return _words(rows).view(FLOATS[dtype]).astype(np.float64)
    if dtype == "bf16":
        return (_words(rows).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return np.asarray(_f8_values(dtype)[_words(rows)]) if dtype in F8 else None


def _parts(dtype: str, rows: Array) -> tuple[str, Array]:
    """Complex elements as rows of their floats, others as they are."""
    part = PARTS.get(dtype, dtype)
    return part, np.ascontiguousarray(rows).reshape(-1, SIZES.get(part, 1))


def _nonfinite(dtype: str, rows: Array) -> int:
    floats = _floats(*_parts(dtype, rows))
    return 0 if floats is None else int(floats.size - np.isfinite(floats).sum())


def _ordered(rows: Array) -> Array:
    """Signed integers as unsigned ones in the same order, so that differences can't wrap."""
    words = _words(rows)
    return np.asarray(words ^ words.dtype.type(1 << (8 * words.itemsize - 1)))


def _gap(a: Array, b: Array) -> int:
    return int(np.where(a > b, a - b, b - a).max())


def _max_abs(dtype: str, rows_a: Array, rows_b: Array) -> float | str:
    floats_a, floats_b = _floats(*_parts(dtype, rows_a)), _floats(*_parts(dtype, rows_b))
    if floats_a is None or floats_b is None:
        return _gap(_ordered(rows_a), _ordered(rows_b)) if dtype[0] == "i" else _gap(_words(rows_a), _words(rows_b))
    with np.errstate(all="ignore"):
        delta = np.abs(floats_a - floats_b)
        if dtype in PARTS:
            # Parts whose bits are equal lie 0 apart, also where both are inf or the same NaN.
            same = _words(_parts(dtype, rows_a)[1]) == _words(_parts(dtype, rows_b)[1])
            delta = np.where(same, 0.0, delta)
        if np.isnan(delta).any():
            return "nan"
        if dtype in PARTS:
            delta = np.hypot(delta[0::2], delta[1::2])
    largest = float(delta.max())
    return "inf" if math.isinf(largest) else largest


def _max_ulp(dtype: str, rows_a: Array, rows_b: Array) -> int | None:
    """Steps from float to next float, at most; NaNs have no place among them. None for integers."""
    (part, parts_a), (_, parts_b) = _parts(dtype, rows_a), _parts(dtype, rows_b)
    floats_a, floats_b = _floats(part, parts_a), _floats(part, parts_b)
    if floats_a is None or floats_b is None:
        return None
    numbers = ~(np.isnan(floats_a) | np.isnan(floats_b))
    return _gap(_rank(parts_a[numbers]), _rank(parts_b[numbers])) if numbers.any() else None


def _rank(rows: Array) -> Array:
    """The place of each float among all of its dtype: consecutive, with -0.0 and 0.0 in one place."""
    words = _words(rows).astype(np.uint64)
    middle = np.uint64(1 << (8 * rows.shape[1] - 1))
    magnitude = words & (middle - np.uint64(1))
    return np.where(words >= middle, middle - magnitude, middle + magnitude)
