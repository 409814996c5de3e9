"""Initial values, drawn only inside a seeded scope; nothing but a specimen falls back to time and thread id."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod, sqrt

import torch
from torch import Tensor

from foxflow.determinism.stream import Stream
from foxflow.errors import UnseededInitError

STREAMS = {
    "trunk": 0x0E00,
    "q": 0x0D00,
    "pi": 0x0A00,
    "v": 0x0B00,
    "iqn": 0x0100,
    "dueling": 0x0D40,
    "frd": 0x0F0D,
    "outcome": 0x0CE0,
    "act": 0x0AC7,
    "per": 0x09E2,
    "iqn_state": 0x01A2,
    "cursors": 0x0C02,
    "tape": 0x0DA7,
}
"""What a stream is for -> its id; no two (seed, id) share a stream."""

_scope = threading.local()


@contextmanager
def scoped_init_seed(seed: int, stream: str) -> Iterator[Stream]:
    """Let this thread draw initial values from one stream until the block ends.

    Args:
        seed: the run's seed.
        stream: a key of `STREAMS`.

    The generator of an enclosing scope is back after the block, also after an exception.
    """
    with _scope_of(Stream(seed, STREAMS[stream])) as opened:
        yield opened


@contextmanager
def unseeded_scope(stream: str) -> Iterator[Stream]:
    """The specimen `unseeded_outcome`: a generator that starts from the clock and the thread's id, not from the seed.

    Args:
        stream: a key of `STREAMS`.
    """
    with _scope_of(Stream(time.time_ns() ^ threading.get_ident(), STREAMS[stream])) as opened:
        yield opened


@contextmanager
def _scope_of(stream: Stream) -> Iterator[Stream]:
    before = getattr(_scope, "stream", None)
    _scope.stream = stream
    try:
        yield _scope.stream
    finally:
        _scope.stream = before


def xavier(shape: Sequence[int], gain: float = 1.0) -> Tensor:
    """Draw U(-a, a), a = gain * sqrt(6 / (in + out)), row-major, on the host.

    Args:
        shape: [in, out], or [in] for a vector with one output.
        gain: 1, or 0.01 for a last layer near zero.

    Returns:
        float32 of `shape`.

    Raises:
        UnseededInitError: outside `scoped_init_seed`.

    Source: Glorot and Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010.
    """
    stream = getattr(_scope, "stream", None)
    if stream is None:
        raise UnseededInitError(f"weights {list(shape)} must be drawn inside scoped_init_seed(seed, stream).")
    fan_out = shape[1] if len(shape) == 2 else 1
    a = torch.tensor(gain * sqrt(6 / (shape[0] + fan_out)), dtype=torch.float32)
    u = torch.from_numpy(stream.uniform(prod(shape)))
    return (a * (2 * u - 1)).reshape(tuple(shape))
