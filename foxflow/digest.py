"""Digest `fx1`: 128 bits of a buffer's bytes, dtype and shape, written `fx1:` + 32 hex digits.

Over the logical row-major little-endian bytes, padded with zeros to 64-bit words w_0 …; lanes L = 0, 1; modulo 2**64:

    x = w_i xor (S_L + (i + 1) * G_L);  t = lo32(x) * hi32(x) + rotl(x, 32);  term = t xor (t >> 29);  sum_L = sum(term)
    h = mix64(nbytes + S_0);  h = mix64(h xor dtype code);  h = mix64(h xor rank)
    for each size:  h = mix64(h xor (size + G_0))
    lane_L = mix64(sum_L xor h xor S_L), mix64 being splitmix64's finaliser, a bijection

A sum has no order, so any schedule gives the same digest, and a range of words can be taken out and put in.
It is no cryptographic seal. Twins: `reference` (Python integers), fx1_plain.cpp (C, by ctypes), the ops (C++, CUDA).
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Sums = npt.NDArray[np.uint64]

SCHEME = "fx1"
G = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)
S = (0x243F6A8885A308D3, 0x13198A2E03707344)
MASK = 2**64 - 1
CHUNK_WORDS = 1 << 16

DTYPES: dict[str, tuple[int, int]] = {
    "bool": (1, 1),
    "u8": (2, 1),
    "u16": (3, 2),
    "u32": (4, 4),
    "u64": (5, 8),
    "i8": (6, 1),
    "i16": (7, 2),
    "i32": (8, 4),
    "i64": (9, 8),
    "f16": (10, 2),
    "bf16": (11, 2),
    "f32": (12, 4),
    "f64": (13, 8),
    "c64": (14, 8),
    "c128": (15, 16),
    "f8_e4m3fn": (16, 1),
    "f8_e5m2": (17, 1),
    "f8_e4m3fnuz": (18, 1),
    "f8_e5m2fnuz": (19, 1),
}
"""dtype name -> (code, bytes an element). Codes are part of every digest: never renumber, only add."""

_WELL_FORMED, _ALL_WELL_FORMED = re.compile(r"fx1:[0-9a-f]{32}"), re.compile(r"(?:fx1:[0-9a-f]{32}\n)*")


def mix64(z: int) -> int:
    """splitmix64's finaliser: a bijection of 64-bit integers."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


@functools.lru_cache(maxsize=65536)
def head(dtype: str, shape: tuple[int, ...], nbytes: int) -> int:
    """The part of a digest that byte count, dtype and shape make.

    Args:
        dtype: a name in `DTYPES`.
        shape: sizes of the axes, outermost first.
        nbytes: bytes of the buffer.

    Raises:
        KeyError: the dtype has no code.
    """
    h = mix64(nbytes + S[0] & MASK)
    h = mix64(h ^ DTYPES[dtype][0])
    h = mix64(h ^ len(shape))
    for size in shape:
        h = mix64(h ^ (size + G[0] & MASK))
    return h


def reference(data: bytes, dtype: str, shape: Sequence[int]) -> str:
    """The definition in plain integers, slow; the other twins are tested against it."""
    padded = data + bytes(-len(data) % 8)
    sums = [0, 0]
    for i in range(len(padded) // 8):
        word = int.from_bytes(padded[8 * i : 8 * i + 8], "little")
        for lane in (0, 1):
            x = word ^ (S[lane] + (i + 1) * G[lane] & MASK)
            t = (x & 0xFFFFFFFF) * (x >> 32) + ((x << 32 | x >> 32) & MASK) & MASK
            sums[lane] = sums[lane] + (t ^ t >> 29) & MASK
    h = head(dtype, tuple(shape), len(data))
    return "fx1:" + "".join(f"{mix64(sums[lane] ^ h ^ S[lane]):016x}" for lane in (0, 1))


@functools.cache
def _compiled() -> Any:
    """`fox_fx1_sums` of the compiled library, or None where it was not built."""
    found = importlib.util.find_spec("foxflow._fx1")
    if found is None or found.origin is None:
        return None
    function = ctypes.CDLL(found.origin).fox_fx1_sums
    function.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p]
    function.restype = None
    return function


def compiled_sums(data: Any, first_word: int = 0) -> tuple[int, int] | None:
    """`lane_sums` by the compiled library; None where it was not built."""
    function = _compiled()
    if function is None:
        return None
    flat = np.frombuffer(data, dtype=np.uint8)
    out = (ctypes.c_uint64 * 2)()
    function(flat.__array_interface__["data"][0], flat.size, first_word & MASK, out)
    return out[0], out[1]


def numpy_sums(data: Any, first_word: int = 0) -> tuple[int, int]:
    """`lane_sums` by numpy, the slow fallback."""
    flat = np.frombuffer(data, dtype=np.uint8)
    sums = [0, 0]
    for start in range(0, flat.size, 8 * CHUNK_WORDS):
        piece = flat[start : start + 8 * CHUNK_WORDS]
        words = np.frombuffer(piece.tobytes() + bytes(-piece.size % 8), dtype="<u8").astype(np.uint64)
        index = np.arange(1, words.size + 1, dtype=np.uint64) + np.uint64(first_word + start // 8 & MASK)
        for lane in (0, 1):
            x = words ^ (np.uint64(S[lane]) + index * np.uint64(G[lane]))
            t = (x & np.uint64(0xFFFFFFFF)) * (x >> np.uint64(32)) + (x << np.uint64(32) | x >> np.uint64(32))
            sums[lane] = sums[lane] + int((t ^ t >> np.uint64(29)).sum(dtype=np.uint64)) & MASK
    return sums[0], sums[1]


def lane_sums(data: Any, first_word: int = 0) -> tuple[int, int]:
    """Both lanes' sums over a range of a buffer.

    Args:
        data: contiguous bytes (bytes, memoryview, Arrow buffer, numpy array), padded with zeros to a word.
        first_word: where the range begins in the buffer, in 8-byte words.

    Returns:
        The sums modulo 2**64. Old range's sums out and new range's in gives the changed buffer's sums.
    """
    return compiled_sums(data, first_word) or numpy_sums(data, first_word)


def _mixed(z: Sums) -> Sums:
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def finish(sums: Sums, heads: Sums) -> bytes:
    """Make digests of sums.

    Args:
        sums: uint64[n, 2], lanes 0 and 1 of n buffers.
        heads: uint64[n], `head` of each.

    Returns:
        n digests, the 16 bytes each that their hex digits spell.
    """
    return _mixed(sums ^ heads[:, None] ^ np.array(S, dtype=np.uint64)).astype(">u8").tobytes()


def texts(raw: bytes) -> list[str]:
    """Digests as text, of their 16 bytes each."""
    digits = raw.hex()
    return ["fx1:" + digits[at : at + 32] for at in range(0, len(digits), 32)]


def raw(texts: Iterable[str]) -> bytes:
    """The 16 bytes each that well-formed digests spell."""
    return bytes.fromhex("".join([text[4:] for text in texts]))


def digest(data: Any, dtype: str, shape: Sequence[int]) -> str:
    """The digest of one buffer.

    Args:
        data: its logical row-major little-endian bytes, contiguous.
        dtype: a name in `DTYPES`.
        shape: sizes of its axes, outermost first.
    """
    first, second = lane_sums(data)
    h = head(dtype, tuple(shape), memoryview(data).nbytes)
    return f"fx1:{mix64(first ^ h ^ S[0]):016x}{mix64(second ^ h ^ S[1]):016x}"


def well_formed(text: str) -> bool:
    """Whether the text is `fx1:` and 32 lower-case hex digits."""
    return _WELL_FORMED.fullmatch(text) is not None


def all_well_formed(texts: Sequence[str]) -> bool:
    """Whether each text is well-formed; one look at many."""
    return _ALL_WELL_FORMED.fullmatch("".join([text + "\n" for text in texts])) is not None


class Fold:
    """A fingerprint in the making: one digest over many digests, added in dataflow order.

    It is the digest (dtype u8, one axis) of their raw 16 bytes each, behind those of the capture set's own digest,
    which is known last.
    """

    def __init__(self) -> None:
        self._sums = [0, 0]
        self._count = 1

    def add(self, digests: bytes) -> None:
        """Add digests in their order, 16 bytes each."""
        self._take(digests, 2 * self._count)
        self._count += len(digests) // 16

    def _take(self, digests: bytes, first_word: int) -> None:
        found = lane_sums(digests, first_word)
        self._sums = [(old + new) & MASK for old, new in zip(self._sums, found, strict=True)]

    def result(self, capture: str) -> str:
        """The fingerprint, given the digest of the capture set; what was added so far stays."""
        first = lane_sums(raw([capture]))
        sums = np.array([[old + new & MASK for old, new in zip(self._sums, first, strict=True)]], dtype=np.uint64)
        nbytes = 16 * self._count
        return texts(finish(sums, np.array([head("u8", (nbytes,), nbytes)], dtype=np.uint64)))[0]


def fold(digests: Iterable[str], capture: str) -> str:
    """The fingerprint over digests in dataflow order.

    Args:
        digests: well-formed digests.
        capture: the digest of the capture set they belong to.
    """
    whole = Fold()
    whole.add(raw(digests))
    return whole.result(capture)
