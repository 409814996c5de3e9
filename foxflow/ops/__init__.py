"""The compiled operators, checked at this edge: words for mistakes here, the second net in cuda_ext/check.h.

One module a family: linalg, digest, encoder, heads, world, replay, learn; and `specimens`, real bugs. Each function is
differentiable where a test checks its gradient. Importing this package loads torch and foxflow._C.
"""

from __future__ import annotations

import importlib.util

import torch

from foxflow.errors import must

if importlib.util.find_spec("foxflow._C") is None:
    raise must("foxflow._C", "be built", "no compiled module", "Run 'make build' and see README.md.")

from foxflow import _C  # noqa: F401


def has_cuda() -> bool:
    """Whether the compiled module holds CUDA kernels."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key("foxflow::matmul", "CUDA"))
