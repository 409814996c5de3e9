"""A second stream within a step that a GPU keeps as a graph: what nothing waits for yet runs beside what goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class Branch:
    """What is launched `beside` begins once all launched before has ended, and may go on until `join`.

    Only while a graph is captured: elsewhere, and on a CPU, all runs in order. Between `beside` and `join` nothing that
    the branch reads or writes may be written or freed by what goes on; what it makes is read after `join` only.
    """

    def __init__(self) -> None:
        self._stream: torch.cuda.Stream | None = None
        self._open = False
        self._kept: list[Tensor] = []

    @contextmanager
    def beside(self, *reads: Tensor) -> Iterator[None]:
        """Launch on the branch; within another `beside` nothing is waited for anew.

        Args:
            reads: what is read and might be freed before `join`, whose memory would be written anew; kept until then.
        """
        if not _capturing():
            yield
            return
        if self._stream is None:
            self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._kept += reads
        if torch.cuda.current_stream() == self._stream:
            yield
            return
        self._stream.wait_stream(torch.cuda.current_stream())
        self._open = True
        with torch.cuda.stream(self._stream):
            yield

    def join(self) -> None:
        """Wait on the device for all that was launched beside."""
        if self._stream is not None and self._open:
            torch.cuda.current_stream().wait_stream(self._stream)
            self._kept.clear()
            self._open = False


def _capturing() -> bool:
    """Whether a graph is captured now; builds for the CPU can't be asked."""
    built: bool = torch.backends.cuda.is_built()  # type: ignore[no-untyped-call]
    return built and torch.cuda.is_current_stream_capturing()
