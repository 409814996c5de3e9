"""What the dumped bytes of a difference tell about its cause, where both records hold them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foxflow import flow

FLOATS = {"f64": ("<f8", 2.0**-52), "f32": ("<f4", 2.0**-23), "f16": ("<f2", 2.0**-10), "bf16": ("<u2", 2.0**-7)}
"""dtype -> how its elements are stored, and the distance from 1 to the next number."""

ROUNDING = 64
"""A difference is of rounding size if no element is farther apart than this many epsilons of the buffer's largest."""

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Detail:
    """What all measured differences of a root have in common."""

    rounding: bool
    """All of them floats that lie within rounding of one another."""
    permuted: bool
    """All of them the same elements in another order."""
    one_bit: bool
    """There is one, of one bit of one element among several."""


def detail(a: flow.Record, b: flow.Record, measured: Iterable[tuple[flow.Where, flow.BufferDiff]]) -> Detail | None:
    """Read the dumps of a root's differences.

    Args:
        a: a record.
        b: the other.
        measured: differences of which both sides' bytes are dumped.

    Returns:
        None where there are none.
    """
    rounding, permuted, bits, elements = True, True, 0, 0
    found = list(measured)
    for where, diff in found:
        sides = [_bytes(record, where) for record in (a, b)]
        if sides[0] is None or sides[1] is None:
            return None
        one, other = sides[0], sides[1]
        rounding = rounding and _rounding(diff.dtype, one, other)
        permuted = permuted and bool(diff.permutation)
        bits += int(np.bitwise_count(np.bitwise_xor(one, other)).sum())
        elements = diff.elements
    if not found:
        return None
    return Detail(rounding, permuted, len(found) == bits == 1 and elements > 1)


def _bytes(record: flow.Record, where: flow.Where) -> Array | None:
    for batch in record.dump(where.phase, where.step):
        names, ks = batch.column("buffer").to_pylist(), batch.column("k").to_pylist()
        for i, place in enumerate(zip(names, ks, strict=True)):
            if place == (where.buffer, where.k):
                return np.frombuffer(batch.column("data")[i].as_buffer(), np.uint8)
    return None


def _rounding(dtype: str, one: Array, other: Array) -> bool:
    if dtype not in FLOATS:
        return False
    stored, epsilon = FLOATS[dtype]
    values = [_values(dtype, side.view(stored)) for side in (one, other)]
    if not all(np.isfinite(side).all() for side in values):
        return False
    largest = max(float(np.abs(side).max()) for side in values)
    return float(np.abs(values[0] - values[1]).max()) <= ROUNDING * epsilon * largest


def _values(dtype: str, stored: Array) -> Array:
    if dtype == "bf16":
        stored = (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return stored.astype(np.float64)
