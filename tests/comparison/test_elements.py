"""Differences are measured right for every dtype, also where arithmetic traps lie."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foxflow.comparison.elements import Apart, apart

NUMPY = {"bool": "?", "u8": "u1", "u16": "<u2", "u32": "<u4", "u64": "<u8", "i8": "i1", "i16": "<i2", "i32": "<i4"}
NUMPY |= {"i64": "<i8", "f16": "<f2", "f32": "<f4", "f64": "<f8", "c64": "<c8", "c128": "<c16"}
INF, NAN = math.inf, math.nan


def between(dtype: str, a: list[Any], b: list[Any], shape: tuple[int, ...] | None = None) -> Apart:
    """Of values; bf16 and 8-bit floats are given as raw bits."""
    form = NUMPY.get(dtype, "<u2" if dtype == "bf16" else "u1")
    return apart(
        dtype, (len(a),) if shape is None else shape, *(np.array(side, dtype=form).tobytes() for side in (a, b))
    )


@pytest.mark.parametrize(
    ("dtype", "a", "b", "max_abs", "max_ulp"),
    [
        pytest.param("u8", [0, 7], [255, 7], 255, None, id="unsigned must not wrap"),
        pytest.param("u64", [0], [2**64 - 1], 2**64 - 1, None, id="u64 over its whole range"),
        pytest.param("i64", [-(2**63)], [2**63 - 1], 2**64 - 1, None, id="i64 over its whole range"),
        pytest.param("i64", [2**53], [2**53 + 1], 1, None, id="i64 that float64 can't tell apart"),
        pytest.param("i8", [-128], [127], 255, None, id="i8 must not wrap"),
        pytest.param("i16", [-1], [1], 2, None, id="i16"),
        pytest.param("i32", [-(2**31)], [2**31 - 1], 2**32 - 1, None, id="i32"),
        pytest.param("u16", [1], [3], 2, None, id="u16"),
        pytest.param("u32", [1], [0], 1, None, id="u32"),
        pytest.param("bool", [True, False], [False, False], 1, None, id="bool has no subtraction"),
        pytest.param("f32", [0.0], [-0.0], 0.0, 0, id="minus zero"),
        pytest.param("f32", [1.0], [1.0 + 2**-23], 2**-23, 1, id="f32 neighbours"),
        pytest.param("f32", [2**-149], [-(2**-149)], 2**-148, 2, id="f32 neighbours of zero"),
        pytest.param("f32", [0.0, NAN], [0.0, 1.0], "nan", None, id="NaN on one side"),
        pytest.param("f32", [1.0, NAN], [2.0, 1.0], "nan", 2**23, id="NaN and a number"),
        pytest.param("f32", [INF], [-INF], "inf", 2 * 0x7F800000, id="inf and minus inf"),
        pytest.param("f32", [INF, 1.0], [INF, 1.5], 0.5, 2**22, id="inf minus inf where both are equal"),
        pytest.param("f32", [3.4e38], [INF], "inf", None, id="overflow to inf"),
        pytest.param("f64", [1.7e308], [-1.7e308], "inf", None, id="difference beyond float64"),
        pytest.param("f64", [1.0], [1.0 - 2**-53], 2**-53, 1, id="f64 neighbours"),
        pytest.param("f16", [65504.0], [-65504.0], 131008.0, 2 * 0x7BFF, id="f16 must not overflow"),
        pytest.param("bf16", [0x3F80], [0x3F81], 2**-7, 1, id="bf16 neighbours"),
        pytest.param("bf16", [0x7FC0], [0x3F80], "nan", None, id="bf16 NaN"),
        pytest.param("c64", [1 + 1j], [4 + 5j], 5.0, None, id="complex modulus"),
        pytest.param("c64", [complex(INF, 1)], [complex(INF, 2)], 1.0, 2**23, id="complex with equal infinite parts"),
        pytest.param("c64", [complex(NAN, INF)], [complex(1, 1)], "nan", None, id="complex NaN beside inf"),
        pytest.param("c128", [1j], [1j * (1 + 2**-52)], 2**-52, 1, id="c128 neighbours"),
        pytest.param("f8_e4m3fn", [0x7E], [0xFE], 896.0, 2 * 0x7E, id="largest e4m3fn is 448"),
        pytest.param("f8_e4m3fn", [0x7F], [0x00], "nan", None, id="e4m3fn NaN"),
        pytest.param("f8_e5m2", [0x7B], [0x00], 57344.0, 0x7B, id="largest e5m2 is 57344"),
        pytest.param("f8_e5m2", [0x7C], [0x00], "inf", 0x7C, id="e5m2 inf"),
        pytest.param("f8_e4m3fnuz", [0x7F], [0x00], 240.0, 0x7F, id="largest e4m3fnuz is 240"),
        pytest.param("f8_e4m3fnuz", [0x80], [0x00], "nan", None, id="e4m3fnuz NaN"),
        pytest.param("f8_e5m2fnuz", [0x7F], [0x00], 57344.0, 0x7F, id="largest e5m2fnuz is 57344"),
    ],
)
def test_distances(dtype: str, a: list[Any], b: list[Any], max_abs: object, max_ulp: int | None) -> None:
    found = between(dtype, a, b)
    assert found.max_abs == max_abs
    assert isinstance(found.max_abs, type(max_abs))
    if max_ulp is not None:
        assert found.max_ulp == max_ulp


def test_nan_of_another_payload_differs_and_of_the_same_does_not() -> None:
    quiet, other = struct.pack("<I", 0x7FC00000), struct.pack("<I", 0x7FC00001)
    found = apart("f32", (2,), quiet + quiet, quiet + other)
    assert (found.differing, found.first_index, found.max_abs, found.max_ulp) == (1, (1,), "nan", None)
    assert found.nonfinite == (2, 2)


def test_first_index_is_in_coordinates() -> None:
    assert between("i32", [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 7, 7], (2, 3)).first_index == (1, 1)
    assert between("i32", [0], [1], ()).first_index == ()


def test_counts_are_of_elements_not_of_bytes_or_parts() -> None:
    assert between("c64", [1 + 1j, 0j], [2 + 2j, 0j]).differing == 1
    assert between("i64", [0, 1, 2], [2**40 - 1, 1, 3]).differing == 2


@pytest.mark.parametrize("dtype", ["f32", "i8", "c128", "u16"])
def test_only_the_order_differs(dtype: str) -> None:
    assert between(dtype, [3, 1, 2, 2], [2, 3, 2, 1]).permutation
    assert not between(dtype, [3, 1, 2, 2], [2, 3, 1, 1]).permutation


def test_halves_of_complex_numbers_exchanged_are_no_permutation() -> None:
    assert not between("c128", [1 + 2j, 3 + 4j], [1 + 4j, 3 + 2j]).permutation


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
@pytest.mark.parametrize("dtype", ["f32", "c128", "bool", "bf16", "f8_e5m2"])
def test_empty_buffers_do_not_differ(dtype: str, shape: tuple[int, ...]) -> None:
    found = apart(dtype, shape, b"", b"")
    assert (found.differing, found.max_abs, found.first_index) == (0, None, None)


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)), min_size=1))
def test_integers_are_apart_as_python_says(pairs: list[tuple[int, int]]) -> None:
    found = between("i64", [a for a, _ in pairs], [b for _, b in pairs])
    assert (found.max_abs or 0) == max(abs(a - b) for a, b in pairs)


@given(st.lists(st.tuples(st.floats(width=32), st.floats(width=32)), min_size=1))
def test_floats_are_apart_as_python_says(pairs: list[tuple[float, float]]) -> None:
    packed = [[struct.pack("<f", value) for value in side] for side in zip(*pairs, strict=True)]
    gaps = [abs(a - b) for (a, b), x, y in zip(pairs, *packed, strict=True) if x != y]
    expected = None if not gaps else "nan" if any(map(math.isnan, gaps)) else max(gaps)
    found = apart("f32", (len(pairs),), *(b"".join(side) for side in packed))
    assert found.max_abs == ("inf" if expected == INF else expected)
    assert found.differing == len(gaps)
