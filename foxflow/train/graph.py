"""A pass of kernels that the GPU keeps: captured once as a CUDA graph, then launched as one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch

Made = TypeVar("Made")


class Graph(Generic[Made]):
    """Captures a pass; nothing of it has run yet.

    Args:
        run: launches kernels on the current stream and returns the tensors that they make; it reads no tensor on the
            host. What it allocates belongs to the graph: each launch writes the same memory anew.
    """

    def __init__(self, run: Callable[[], Made]) -> None:
        self._graph = torch.cuda.CUDAGraph()
        with _collected(), torch.cuda.graph(self._graph):
            self._made = run()

    def launch(self) -> Made:
        """Run the pass; what it made is valid until the next launch."""
        self._graph.replay()
        return self._made


@contextmanager
def _collected() -> Iterator[None]:
    """Collect garbage before and none within: an older graph that is freed during a capture breaks it."""
    gc.collect()
    again = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if again:
            gc.enable()
