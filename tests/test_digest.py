"""The digest fx1: three twins agree, and what must change it does."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foxflow import digest as fx

ROOT = Path(__file__).resolve().parent.parent
FLOAT32S = struct.pack("<4f", 1.0, -2.5, 0.0, 3.25)


def lanes(text: str) -> tuple[str, str]:
    return text[4:20], text[20:]


def of(data: bytes, dtype: str = "u8", shape: tuple[int, ...] | None = None) -> str:
    return fx.digest(data, dtype, (len(data) // fx.DTYPES[dtype][1],) if shape is None else shape)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The C twin is part of the build; where no build was made yet it is compiled here beside the package."""
    library = ROOT / "foxflow" / "_fx1.so"
    if not library.exists():
        source = ROOT / "cuda_ext" / "fx1_plain.cpp"
        fresh = tmp_path_factory.mktemp("fx1") / "_fx1.so"
        subprocess.run(["g++", "-O3", "-std=c++20", "-shared", "-fPIC", str(source), "-o", str(fresh)], check=True)
        library.write_bytes(fresh.read_bytes())
    fx._compiled.cache_clear()


@pytest.mark.usefixtures("compiled")
@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=300), first_word=st.integers(0, 2**40))
def test_c_and_numpy_sum_alike(data: bytes, first_word: int) -> None:
    assert fx.compiled_sums(data, first_word) == fx.numpy_sums(data, first_word)


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=300))
def test_digest_equals_the_reference_in_plain_integers(data: bytes) -> None:
    assert of(data) == fx.reference(data, "u8", (len(data),))


def test_numpy_sums_cross_their_chunks_like_c(compiled: None) -> None:
    data = np.random.default_rng(0).bytes(8 * fx.CHUNK_WORDS + 13)
    assert fx.numpy_sums(data, 5) == fx.compiled_sums(data, 5)


def test_digest_of_a_known_buffer_never_moves() -> None:
    assert of(FLOAT32S, "f32", (2, 2)) == "fx1:8b5e414f40e33423ec22d7766f4a3e82"
    assert of(b"", "f32", (0, 3)) == "fx1:4366bcd0277b36d67c09baa74617058a"


def test_finish_is_the_digest_of_many_buffers_at_once() -> None:
    buffers = [b"", b"abc", FLOAT32S, bytes(1000)]
    sums = np.array([fx.lane_sums(data) for data in buffers], dtype=np.uint64)
    heads = np.array([fx.head("u8", (len(data),), len(data)) for data in buffers], dtype=np.uint64)
    raw = fx.finish(sums, heads)
    assert fx.texts(raw) == [of(data) for data in buffers]
    assert fx.raw(fx.texts(raw)) == raw


@settings(max_examples=300, deadline=None)
@given(data=st.binary(min_size=1, max_size=200), at=st.integers(0, 10**6), change=st.integers(1, 2**32 - 1))
def test_any_change_within_one_32_bit_element_changes_both_lanes(data: bytes, at: int, change: int) -> None:
    words = bytearray(data + bytes(-len(data) % 4))
    place = 4 * (at % (len(words) // 4))
    before = of(bytes(words))
    words[place : place + 4] = (int.from_bytes(words[place : place + 4], "little") ^ change).to_bytes(4, "little")
    assert all(old != new for old, new in zip(lanes(before), lanes(of(bytes(words))), strict=True))


def test_every_single_bit_flip_changes_both_lanes() -> None:
    data = np.random.default_rng(1).bytes(72)
    before = lanes(of(data))
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        after = lanes(of(bytes(flipped)))
        assert before[0] != after[0]
        assert before[1] != after[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(struct.pack("<2f", 0.0, 1.0), struct.pack("<2f", -0.0, 1.0), id="minus zero"),
        pytest.param(struct.pack("<2I", 0x7FC00000, 0), struct.pack("<2I", 0x7FC00001, 0), id="NaN payload"),
        pytest.param(struct.pack("<2f", 1.0, 2.0), struct.pack("<2f", 2.0, 1.0), id="swap within a word"),
        pytest.param(struct.pack("<4f", 1, 2, 3, 4), struct.pack("<4f", 3, 4, 1, 2), id="swap of words"),
        pytest.param(struct.pack("<3f", 1, 1, 1), struct.pack("<3f", -1, -1, -1), id="all signs"),
        pytest.param(bytes(8), bytes(12), id="more zeros"),
    ],
)
def test_what_tolerances_overlook_changes_the_digest(one: bytes, other: bytes) -> None:
    assert of(one, "f32") != of(other, "f32")


def test_shape_and_dtype_are_part_of_the_digest() -> None:
    data = bytes(24)
    forms = [("f32", (6,)), ("f32", (2, 3)), ("f32", (3, 2)), ("f32", (1, 6)), ("i32", (6,)), ("f64", (3,))]
    assert len({fx.digest(data, dtype, shape) for dtype, shape in forms}) == len(forms)


def test_zero_size_buffers_differ_by_shape_and_dtype() -> None:
    forms = [("f32", (0,)), ("f32", (0, 3)), ("f32", (3, 0)), ("i32", (0,))]
    assert len({fx.digest(b"", dtype, shape) for dtype, shape in forms}) == len(forms)


def test_codes_are_unique() -> None:
    assert len({code for code, _ in fx.DTYPES.values()}) == len(fx.DTYPES)


@settings(max_examples=100, deadline=None)
@given(data=st.binary(min_size=64, max_size=256), start=st.integers(0, 3), size=st.integers(1, 4), fill=st.binary())
def test_a_ring_is_digested_by_its_changed_words(data: bytes, start: int, size: int, fill: bytes) -> None:
    first, last = 8 * start, 8 * (start + size)
    fresh = (fill + bytes(last - first))[: last - first]
    changed = data[:first] + fresh + data[last:]
    whole = zip(fx.lane_sums(data), fx.lane_sums(data[first:last], start), fx.lane_sums(fresh, start), strict=True)
    assert tuple((total - old + new) & fx.MASK for total, old, new in whole) == fx.lane_sums(changed)


def test_fingerprint_depends_on_order_and_on_the_capture_set() -> None:
    one, two, capture = of(b"1"), of(b"2"), of(b"capture")
    assert len({fx.fold([one, two], capture), fx.fold([two, one], capture), fx.fold([one, two], one)}) == 3


def test_fingerprint_is_the_digest_of_the_raw_digests() -> None:
    texts = [of(b"capture"), of(b"1"), of(b"2")]
    assert fx.fold(texts[1:], texts[0]) == of(b"".join(bytes.fromhex(text[4:]) for text in texts))


def test_a_fingerprint_may_be_added_to_in_pieces() -> None:
    texts = [of(bytes([i])) for i in range(50)]
    whole = fx.Fold()
    whole.add(fx.raw(texts[:7]))
    whole.add(b"")
    whole.add(fx.raw(texts[7:]))
    assert whole.result(texts[3]) == fx.fold(texts, texts[3])


def test_only_lower_case_hex_of_full_length_is_well_formed() -> None:
    good = of(b"x")
    assert fx.well_formed(good)
    assert not any(fx.well_formed(bad) for bad in (good[:-1], good + "0", "fx1:" + "G" * 32, good.upper(), good + "\n"))


def test_many_texts_are_well_formed_if_each_is() -> None:
    good = of(b"x")
    assert fx.all_well_formed([])
    assert fx.all_well_formed([good] * 3)
    assert not fx.all_well_formed([good, good[:-1], "0" + good])
    assert not fx.all_well_formed([good, ""])
    assert not fx.all_well_formed([good + "\n" + good[:-1]])
