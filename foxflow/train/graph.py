"""A pass of kernels that the GPU keeps: captured once as a CUDA graph, then launched as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import torch

Made = TypeVar("Made")


class Graph(Generic[Made]):
    """Captures a pass at its first launch.

    Args:
        run: launches kernels on the current stream and returns the tensors that they make; it reads no tensor on the
            host. What it allocates belongs to the graph: each launch writes the same memory anew.
    """

    def __init__(self, run: Callable[[], Made]) -> None:
        self._run = run
        self._graph = torch.cuda.CUDAGraph()
        self._made: Made | None = None

    def launch(self) -> Made:
        """Run the pass; what it made is valid until the next launch."""
        if self._made is None:
            with torch.cuda.graph(self._graph):
                self._made = self._run()
        self._graph.replay()
        return self._made
