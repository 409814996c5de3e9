"""Specimens: kernels with the real bugs that `foxflow run --specimen` switches on; nothing else calls them.

Each takes the place of a sound operator and computes the same, were it not racing. Axes: B batch rows, Q quantiles,
E cosines, C slots, R rows, M and N of a product.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def missing_sync(a_RN: Tensor) -> Tensor:
    """Sum rows by blocks of four warps that do not wait for one another: what a slow warp adds may be lost.

    Args:
        a_RN: float32, on a GPU.

    Returns:
        [1, N], the shape of `sum_rows` with one chunk.

    Raises:
        Mistake: a is not 2-D float32, or not on a GPU.
    """
    check.tensor(a_RN, "a_RN", "RN", float32)
    _on_gpu(a_RN, "a_RN", "a CPU has no warps")
    result: Tensor = _C.missing_sync(a_RN.contiguous())
    return result


def float_atomics(a_RN: Tensor) -> Tensor:
    """Sum rows in parts of 32 that are added to one output as they finish, by atomics: fast, and in no order.

    Args:
        a_RN: float32, on a GPU.

    Returns:
        [1, N], the shape of `sum_rows` with one chunk.

    Raises:
        Mistake: a is not 2-D float32, or not on a GPU.
    """
    check.tensor(a_RN, "a_RN", "RN", float32)
    _on_gpu(a_RN, "a_RN", "parts are blocks of a GPU")
    result: Tensor = _C.float_atomics(a_RN.contiguous())
    return result


def wrong_stream(x_W: Tensor, offsets: Sequence[int]) -> Tensor:
    """Take the norm of each group by two kernels on two streams, of which the second does not wait for the first.

    Args:
        x_W: float32, on a GPU.
        offsets: as of `group_norm`.

    Returns:
        float32 [G].

    Raises:
        Mistake: x is not 1-D float32, or not on a GPU.
    """
    check.tensor(x_W, "x_W", "W", float32)
    _on_gpu(x_W, "x_W", "a CPU has no streams")
    result: Tensor = _C.wrong_stream(x_W.contiguous(), list(offsets))
    return result


def stale_pinned(ring_CX: Tensor, begin: int, rows_BX: Tensor) -> None:
    """Send rows up by a page-locked buffer of half their size, which the second half overwrites too early.

    Args:
        ring_CX: [C, …] on a GPU, contiguous; the slots [begin, begin + B) are changed.
        begin: the first slot.
        rows_BX: [B, …] on the host, of the ring's dtype.

    Raises:
        Mistake: the ring is not on a GPU, the rows are not on the host, or they don't fit.
    """
    _on_gpu(ring_CX, "ring_CX", "nothing goes up to a CPU")
    _packed(ring_CX, "ring_CX")
    if rows_BX.device.type != "cpu":
        raise must("rows_BX", "be on the host", str(rows_BX.device))
    if rows_BX.dtype != ring_CX.dtype or rows_BX.shape[1:] != ring_CX.shape[1:]:
        raise must(
            "rows_BX", f"hold {ring_CX.dtype} {list(ring_CX.shape[1:])}", f"{rows_BX.dtype} {list(rows_BX.shape)}"
        )
    if begin < 0 or begin + rows_BX.shape[0] > ring_CX.shape[0]:
        raise must("begin and rows", f"lie in the ring of {ring_CX.shape[0]} slots", f"{begin}, {rows_BX.shape[0]}")
    _C.stale_pinned(ring_CX, begin, rows_BX.contiguous())


def _on_gpu(x: Tensor, name: str, why: str) -> None:
    if x.device.type != "cuda":
        raise must(name, f"be on a GPU, for {why}", str(x.device))


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


@torch.library.register_fake("foxflow::float_atomics")
@torch.library.register_fake("foxflow::missing_sync")
def _(a: Tensor) -> Tensor:
    return a.new_empty(1, a.shape[1])


@torch.library.register_fake("foxflow::wrong_stream")
def _(x: Tensor, offsets: Sequence[int]) -> Tensor:
    return x.new_empty(len(offsets) - 1)


torch.library.register_fake("foxflow::per_fence", lambda *_: None)
torch.library.register_fake("foxflow::stale_pinned", lambda *_: None)
