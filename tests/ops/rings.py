"""Rings, states and settings that the tests of the replay share."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from foxflow.ops import replay

SIZES = [(16384, 128), (64, 8), (2, 1), (2048, 1100)]


def ring(slots: int, device: str = "cpu", seed: int = 0) -> tuple[Tensor, Tensor]:
    """Leaves of a ring that is three quarters full, and their tree."""
    g = torch.Generator().manual_seed(seed + slots)
    leaf = torch.rand(slots, generator=g) * 3 + 0.01
    leaf[slots - slots // 4 :] = 0.0
    leaf = leaf.to(device)
    tree = torch.full_like(leaf, 7.0)
    replay.per_rebuild(leaf, tree)
    return leaf, tree


def states(batch: int, device: str = "cpu", seed: int = 0) -> Tensor:
    words = np.random.default_rng(seed).integers(1, 2**32, batch, dtype=np.uint32)
    return torch.from_numpy(words).to(device)


def settings(beta: float = 0.4, device: str = "cpu") -> Tensor:
    isv = torch.zeros(16)
    isv[3] = beta
    return isv.to(device)


def scalar(value: float, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(value, dtype=dtype, device=device)
