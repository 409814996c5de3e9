"""The one random stream behind initial weights, cursors and synthetic tapes: xoshiro256++, seeded by splitmix64.

Integers only, so the same numbers come out on every machine. Not thread-safe: a stream has one owner.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


def mix64(value: int) -> int:
    """Scramble 64 bits by splitmix64's finaliser, a bijection that keeps 0 at 0.

    Args:
        value: any integer; its low 64 bits count.

    Returns:
        An integer from 0 to 2**64 - 1.

    Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014 (variant 13).
    """
    z = value & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


class Stream:
    """A stream of 64-bit words for one (seed, id); no two pairs of small numbers share one.

    The four state words are the first four draws of splitmix64 started at `mix64(seed) xor mix64(id + 1)`.

    Args:
        seed: the run's seed.
        id: which use of the seed this is, e.g. 0x0DA7 for the synthetic tape.

    Source: Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2019.
    """

    def __init__(self, seed: int, id: int) -> None:  # noqa: A002 - the word of the spec
        start = mix64(seed) ^ mix64(id + 1)
        self._state = tuple(mix64(start + (i + 1) * _GAMMA) for i in range(4))

    def next(self) -> int:
        """Draw one word, 0 to 2**64 - 1."""
        return int(self.words(1)[0])

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw `count` words in order, uint64[count]."""
        s0, s1, s2, s3 = self._state
        out = [0] * count
        for i in range(count):
            t = (s0 + s3) & _MASK
            out[i] = (((t << 23) | (t >> 41)) + s0) & _MASK
            t = (s1 << 17) & _MASK
            s2 ^= s0
            s3 ^= s1
            s1 ^= s2
            s0 ^= s3
            s2 ^= t
            s3 = ((s3 << 45) | (s3 >> 19)) & _MASK
        self._state = (s0, s1, s2, s3)
        return np.array(out, dtype=np.uint64)

    def uniform(self, count: int) -> NDArray[np.float32]:
        """Draw float32[count] in [0, 1): (word >> 40) * 2**-24, exact, one word each."""
        return (self.words(count) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)

    def below(self, n_values: int, count: int) -> NDArray[np.int64]:
        """Draw int64[count] from 0 … n_values - 1: ((word >> 32) * n_values) >> 32, one word each.

        Args:
            n_values: 1 to 2**31; a value's chance is off by less than 2**-32.
            count: how many.
        """
        return scale(self.words(count), n_values)

    def words32(self, count: int) -> NDArray[np.uint32]:
        """Draw uint32[count], the upper halves of `count` words; a 0 becomes 1, as xorshift32 needs."""
        return np.maximum((self.words(count) >> np.uint64(32)).astype(np.uint32), np.uint32(1))


def scale(words: NDArray[np.uint64], n_values: int) -> NDArray[np.int64]:
    """Map words to 0 … n_values - 1 by `((word >> 32) * n_values) >> 32`, n_values at most 2**31."""
    return (((words >> np.uint64(32)) * np.uint64(n_values)) >> np.uint64(32)).astype(np.int64)
