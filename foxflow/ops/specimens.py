"""Specimens: kernels with the real bugs that `foxflow run --specimen` switches on; nothing else calls them.

Each takes the place of a sound operator and computes the same, were it not racing. Axes: B batch rows, Q quantiles,
E cosines, C slots, R rows, M and N of a product.
"""

from __future__ import annotations

import torch
from torch import Tensor, float32, uint32

from foxflow.errors import must
from foxflow.ops import check

_C = torch.ops.foxflow


def iqn_race(prng_B: Tensor, quantiles: int, cosines: int, times: int) -> tuple[Tensor, Tensor]:
    """Draw quantiles and advance the states in one kernel: who reads late reads the next state.

    Args:
        prng_B: uint32; ends as `prng_advance` would leave it, whoever read what.
        quantiles: Q.
        cosines: E.
        times: xorshift32 steps of each state.

    Returns:
        tau_BQ, cos_BQE as of `iqn_tau_cos`, each element from the old state or the new one.

    Raises:
        Mistake: prng_B is not 1-D uint32 and contiguous, or a size is not positive.
    """
    check.tensor(prng_B, "prng_B", "B", uint32)
    _packed(prng_B, "prng_B")
    for name, count in (("quantiles", quantiles), ("cosines", cosines)):
        if count < 1:
            raise must(name, "be at least 1", count)
    result: tuple[Tensor, Tensor] = _C.iqn_race(prng_B, quantiles, cosines, times)
    return result


def per_fence(leaf_C: Tensor, tree_C: Tensor) -> None:
    """Rebuild the sum tree by many blocks or threads that wait for none: a fast one adds sums of the last rebuild.

    Args:
        leaf_C: float32, C a power of two.
        tree_C: float32; changed, as `per_rebuild` would.

    Raises:
        Mistake: a tensor has another rank, dtype or size, or is not contiguous.
    """
    for x, name in ((leaf_C, "leaf_C"), (tree_C, "tree_C")):
        check.tensor(x, name, "C", float32, like=leaf_C)
        _packed(x, name)
    check.size(tree_C, "tree_C", 0, leaf_C.shape[0], "leaf_C's slots")
    _C.per_fence(leaf_C, tree_C)


def splitk_gemm(a_RM: Tensor, b_RN: Tensor, parts: int) -> Tensor:
    """Sum the outer products of rows: the parts of the rows side by side, added to one output as they finish.

    Args:
        a_RM: float32.
        b_RN: float32.
        parts: how many.

    Returns:
        [1, M, N], the shape of `matmul_rows` with one chunk.

    Raises:
        Mistake: a tensor is not 2-D float32, the rows differ, or parts is not positive.
    """
    check.tensor(a_RM, "a_RM", "RM", float32)
    check.tensor(b_RN, "b_RN", "RN", float32, like=a_RM)
    check.size(b_RN, "b_RN", 0, a_RM.shape[0], "a_RM's rows")
    if parts < 1:
        raise must("parts", "be at least 1", parts)
    result: Tensor = _C.splitk_gemm(a_RM.contiguous(), b_RN.contiguous(), parts)
    return result


def _packed(x: Tensor, name: str) -> None:
    if not x.is_contiguous():
        raise must(name, "be contiguous", f"strides {x.stride()}")


@torch.library.register_fake("foxflow::iqn_race")
def _(prng: Tensor, quantiles: int, cosines: int, times: int) -> tuple[Tensor, Tensor]:
    shape = (prng.shape[0], quantiles)
    return prng.new_empty(shape, dtype=float32), prng.new_empty(*shape, cosines, dtype=float32)


@torch.library.register_fake("foxflow::splitk_gemm")
def _(a: Tensor, b: Tensor, parts: int) -> Tensor:
    return a.new_empty(1, a.shape[1], b.shape[1])


torch.library.register_fake("foxflow::per_fence", lambda *_: None)
