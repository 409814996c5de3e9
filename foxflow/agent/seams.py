"""Where a specimen may take a kernel's place: one function each, told which specimens are switched on.

The trainer and the replay of a single kernel go through the same functions, so that both run the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

from foxflow.config import Shape
from foxflow.ops import iqn, learn, policy
from foxflow.ops import specimens as racy
from foxflow.ops.linalg import matmul_rows, sum_rows, total_rows

Specimens = tuple[str, ...]
"""Names of the catalogue; none in a clean run."""

IQN_ADVANCE = 8
"""xorshift32 steps of the quantile sampler's state after each call."""
SPLIT_PARTS = 8
"""Parts of the rows in a split-K product."""


def fractions(s: Shape, prng_B: Tensor, specimens: Specimens) -> tuple[Tensor, Tensor]:
    """Draw one call's quantile fractions [B, Q] and their cosines [B, Q, E], and advance the states in place."""
    if "iqn_race" in specimens:
        return racy.iqn_race(prng_B, s.Q, s.E, IQN_ADVANCE)
    drawn = iqn.iqn_tau_cos(prng_B, s.Q, s.E)
    policy.prng_advance(prng_B, IQN_ADVANCE)
    return drawn


def row_products(x_RM: Tensor, grad_RN: Tensor, rows: int, specimens: Specimens) -> Tensor:
    """Sum a layer's gradient over chunks of `rows` rows, [chunks, M, N]."""
    if "splitk_gemm" in specimens:
        return racy.splitk_gemm(x_RM, grad_RN, SPLIT_PARTS)
    return matmul_rows(x_RM, grad_RN, rows)


def clears(name: str, specimens: Specimens) -> bool:
    """Whether what a step gathers under a name starts from zero."""
    return "empty_scratch" not in specimens or not name.startswith("cfc_")


def sums(x_RN: Tensor, rows: int, specimens: Specimens) -> Tensor:
    """Sum over chunks of `rows` rows, [chunks, N]."""
    if "float_atomics" in specimens:
        return racy.float_atomics(x_RN)
    return sum_rows(x_RN, rows)


def totals(out_N: Tensor, parts: Sequence[Tensor], specimens: Specimens) -> None:
    """Sum all rows of each part, these sums end to end."""
    if "float_atomics" in specimens:
        runs = [torch.cat(list(alike), 1) for _, alike in groupby(parts, len)]
        torch.cat([racy.float_atomics(run).view(-1) for run in runs], out=out_N)
    else:
        total_rows(out_N, parts)


def scratch_sums(scratch_RN: Tensor, rows: int, specimens: Specimens) -> Tensor:
    """Sum a scratch of group I over chunks of `rows` rows, [chunks, N]."""
    if "missing_sync" in specimens:
        return racy.missing_sync(scratch_RN)
    return sums(scratch_RN, rows, specimens)


def norms(grad_W: Tensor, offsets: Sequence[int], specimens: Specimens) -> Tensor:
    """Take the norm of each group's gradient, [G]."""
    if "wrong_stream" in specimens:
        return racy.wrong_stream(grad_W, offsets)
    return learn.group_norm(grad_W, offsets)
