"""Comparison as bytes: torch.equal takes -0.0 for 0.0 and refuses NaN."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest
import torch
from torch import Tensor

DEVICES = [pytest.param("cpu"), pytest.param("cuda", marks=pytest.mark.gpu)]


def bits(x: Tensor) -> Tensor:
    return x.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def assert_bit_equal(actual: Tensor, expected: Tensor) -> None:
    """Same dtype, shape and bytes."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    assert torch.equal(bits(actual), bits(expected))


def assert_close(actual: Tensor, expected: Tensor, *, rtol: float) -> None:
    """|actual - expected| <= rtol of the largest expected element; NaN never passes."""
    error = (actual.detach().cpu().double() - expected.detach().cpu().double()).abs().max()
    scale = expected.detach().cpu().double().abs().max().clamp_min(1e-30)
    assert bool(error <= rtol * scale), f"relative error {float(error / scale):.3g} > {rtol:g}"


def clock(step: int, device: str = "cpu") -> Tensor:
    """The number of a step as the operators read it."""
    return torch.tensor(step, device=device)


def sha(*tensors: Tensor) -> str:
    """SHA-256 over the bytes of tensors, for comparing processes."""
    return hashlib.sha256(b"".join(bits(x).numpy().tobytes() for x in tensors)).hexdigest()


def fresh_process(code: str) -> str:
    """What a fresh interpreter prints for `code`, which may import from tests/."""
    path = __file__.rsplit("/", 1)[0]
    prefix = f"import sys; sys.path[:0] = [{path!r}, {path.rsplit('/', 1)[0]!r}]\n"
    done = subprocess.run([sys.executable, "-c", prefix + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()
