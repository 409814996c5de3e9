"""Twins of foxflow/ops/linalg.py."""

from __future__ import annotations

import torch
from torch import Tensor


def matmul(a_MK: Tensor, b_KN: Tensor, bias_N: Tensor | None = None) -> Tensor:
    """a b + bias in float64."""
    product = a_MK.double() @ b_KN.double()
    return product if bias_N is None else product + bias_N.double()


def matmul_nt(a_MK: Tensor, b_NK: Tensor) -> Tensor:
    """a b^T in float64."""
    return a_MK.double() @ b_NK.double().T


def matmul_rows(a_RM: Tensor, b_RN: Tensor, chunk_rows: int) -> Tensor:
    """a^T b of each chunk of rows in float64."""
    pairs = zip(_chunks(a_RM, chunk_rows), _chunks(b_RN, chunk_rows), strict=True)
    return torch.stack([a.T @ b for a, b in pairs])


def sum_rows(a_RN: Tensor, chunk_rows: int) -> Tensor:
    """Column sums of each chunk of rows in float64."""
    return torch.stack([chunk.sum(0) for chunk in _chunks(a_RN, chunk_rows)])


def _chunks(x: Tensor, rows: int) -> tuple[Tensor, ...]:
    return torch.split(x.double(), rows)
