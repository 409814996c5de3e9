"""Matrix products, row sums and kept sums with one order of addition.

Axes: M, N, K of a product; R rows, cut in chunks of `chunk_rows`; c the chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from foxflow.errors import must
from foxflow.ops import check

_C = torch.ops.foxflow

MOST_SUMS, MOST_PASSES = 64, 8
_library = False


@contextmanager
def products(gemm: str) -> Iterator[None]:
    """Take the three products below from foxflow's kernels, or from the library that torch calls.

    Args:
        gemm: "own", or "cublas": on a GPU cuBLAS in float32 without TF32, whose bits are its own device's.
    """
    global _library  # noqa: PLW0603
    before, _library = _library, gemm == "cublas"
    try:
        yield
    finally:
        _library = before


def matmul(a_MK: Tensor, b_KN: Tensor, bias_N: Tensor | None = None) -> Tensor:
    """Multiply two matrices and add a bias to each row.

    Args:
        a_MK: float32 or float64.
        b_KN: a's dtype.
        bias_N: a's dtype, added after the sum.

    Returns:
        [M, N], contiguous.

    Raises:
        Mistake: a tensor is not 2-D, or the inner sizes differ.

    Bits: each element is one fmaf chain over k, ascending from +0, on every device and thread count.
    """
    check.tensor(a_MK, "a_MK", "MK")
    check.tensor(b_KN, "b_KN", "KN", like=a_MK)
    check.size(b_KN, "b_KN", 0, a_MK.shape[1], "a_MK's columns")
    if bias_N is not None:
        check.tensor(bias_N, "bias_N", "N", like=a_MK)
        check.size(bias_N, "bias_N", 0, b_KN.shape[1], "b_KN's columns")
        bias_N = bias_N.contiguous()
    if _library:
        return a_MK @ b_KN if bias_N is None else torch.addmm(bias_N, a_MK, b_KN)
    result: Tensor = _C.matmul(a_MK.contiguous(), b_KN.contiguous(), bias_N)
    return result


def matmul_nt(a_MK: Tensor, b_NK: Tensor) -> Tensor:
    """Multiply a matrix by the transpose of another: out[m, n] = sum over k of a[m, k] b[n, k].

    Raises:
        Mistake: a tensor is not 2-D, or the inner sizes differ.

    Bits: as `matmul`.
    """
    check.tensor(a_MK, "a_MK", "MK")
    check.tensor(b_NK, "b_NK", "NK", like=a_MK)
    check.size(b_NK, "b_NK", 1, a_MK.shape[1], "a_MK's columns")
    if _library:
        return a_MK @ b_NK.T
    result: Tensor = _C.matmul_nt(a_MK.contiguous(), b_NK.contiguous())
    return result


def matmul_rows(a_RM: Tensor, b_RN: Tensor, chunk_rows: int) -> Tensor:
    """Sum the outer products of rows, a sum for each chunk of rows: the weight gradients of a linear layer.

    Returns:
        [chunks, M, N]; the last chunk may hold fewer rows.

    Raises:
        Mistake: a tensor is not 2-D, the rows differ, or chunk_rows is not positive.

    Bits: each element is one fmaf chain over the chunk's rows, ascending from +0.
    """
    check.tensor(a_RM, "a_RM", "RM")
    check.tensor(b_RN, "b_RN", "RN", like=a_RM)
    check.size(b_RN, "b_RN", 0, a_RM.shape[0], "a_RM's rows")
    _positive(chunk_rows)
    if _library:
        return _library_rows(a_RM, b_RN, chunk_rows)
    result: Tensor = _C.matmul_rows(a_RM.contiguous(), b_RN.contiguous(), chunk_rows)
    return result


def sum_rows(a_RN: Tensor, chunk_rows: int) -> Tensor:
    """Sum rows inside each chunk, ascending from +0.

    Returns:
        [chunks, N].

    Raises:
        Mistake: a is not 2-D, or chunk_rows is not positive.
    """
    check.tensor(a_RN, "a_RN", "RN")
    _positive(chunk_rows)
    result: Tensor = _C.sum_rows(a_RN.contiguous(), chunk_rows)
    return result


def total_rows(out_N: Tensor, parts: Sequence[Tensor]) -> None:
    """Sum all rows of each of several tensors, ascending from +0, and lay these sums end to end, all by one launch.

    Args:
        out_N: float32, contiguous, one element for each column of each part; written.
        parts: float32 [rows, columns], at most 64.

    Raises:
        Mistake: there are none or too many, one is not float32 and 2-D, or their columns do not fill out_N.
    """
    check.tensor(out_N, "out_N", "N", torch.float32)
    if not 1 <= len(parts) <= MOST_SUMS:
        raise must("parts", f"be 1 to {MOST_SUMS}", str(len(parts)))
    for i, part in enumerate(parts):
        check.tensor(part, f"parts[{i}]", "RC", torch.float32, like=out_N)
    check.size(out_N, "out_N", 0, sum(part.shape[1] for part in parts), "the columns of all parts")
    _C.total_rows(out_N, [part.contiguous() for part in parts])


def accumulate(sums: Sequence[Tensor], fresh: Sequence[Tensor], *, begin: bool = False) -> None:
    """Add to each of several tensors what is fresh of it, all by one launch.

    Args:
        sums: float32, contiguous, at most 64; changed. With `begin` they are written and not read.
        fresh: one for each sum, of its shape.
        begin: start from 0, so that no zero is negative.

    Raises:
        Mistake: there are none or too many, or one does not match its sum.
    """
    if not 1 <= len(sums) <= MOST_SUMS or len(fresh) != len(sums):
        raise must("sums", f"be 1 to {MOST_SUMS}, with as many fresh", f"{len(sums)} and {len(fresh)}")
    for i, (total, more) in enumerate(zip(sums, fresh, strict=True)):
        for x, name in ((total, f"sums[{i}]"), (more, f"fresh[{i}]")):
            if x.dtype != torch.float32 or x.shape != total.shape or x.device != sums[0].device:
                rule = f"be float32 {list(total.shape)} on {sums[0].device}"
                raise must(name, rule, f"{x.dtype} {list(x.shape)} on {x.device}")
        if not total.is_contiguous():
            raise must(f"sums[{i}]", "be contiguous, since it is changed in place", f"strides {total.stride()}")
    _C.accumulate(list(sums), [more.contiguous() for more in fresh], begin)


def accumulate_outer(sum_RMN: Tensor, a_RM: Sequence[Tensor], b_RN: Sequence[Tensor], *, begin: bool = False) -> None:
    """Add the outer products of rows of several passes to a tensor, by one launch: sum[r, m, n] + a[r, m] b[r, n].

    Args:
        sum_RMN: float32, contiguous; changed. With `begin` it is written and not read.
        a_RM: float32, one for each pass, at most 8.
        b_RN: float32, as many.
        begin: start from 0, so that no zero is negative.

    Raises:
        Mistake: there are none or too many, a tensor is not float32, sizes differ, or the sum is not contiguous.

    Bits: the passes ascend; a product is rounded before it is added, as by `matmul_rows` of single rows and
    `accumulate`.
    """
    if not 1 <= len(a_RM) <= MOST_PASSES or len(b_RN) != len(a_RM):
        raise must("a_RM", f"be 1 to {MOST_PASSES}, with as many b_RN", f"{len(a_RM)} and {len(b_RN)}")
    check.tensor(sum_RMN, "sum_RMN", "RMN", torch.float32)
    if not sum_RMN.is_contiguous():
        raise must("sum_RMN", "be contiguous, since it is changed in place", f"strides {sum_RMN.stride()}")
    rows, m, n = sum_RMN.shape
    for i, (a, b) in enumerate(zip(a_RM, b_RN, strict=True)):
        check.shaped(a, f"a_RM[{i}]", "RM", (rows, m), sum_RMN)
        check.shaped(b, f"b_RN[{i}]", "RN", (rows, n), sum_RMN)
    _C.accumulate_outer(sum_RMN, [a.contiguous() for a in a_RM], [b.contiguous() for b in b_RN], begin)


def _library_rows(a_RM: Tensor, b_RN: Tensor, chunk_rows: int) -> Tensor:
    whole = a_RM.shape[0] // chunk_rows * chunk_rows
    chunks = [x[:whole].reshape(-1, chunk_rows, x.shape[1]) for x in (a_RM, b_RN)]
    sums = torch.bmm(chunks[0].mT, chunks[1])
    return sums if whole == a_RM.shape[0] else torch.cat([sums, (a_RM[whole:].T @ b_RN[whole:]).unsqueeze(0)])


def _positive(chunk_rows: int) -> None:
    if chunk_rows < 1:
        raise must("chunk_rows", "be at least 1", chunk_rows)


@torch.library.register_fake("foxflow::matmul")
def _(a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    return a.new_empty(a.shape[0], b.shape[1])


@torch.library.register_fake("foxflow::matmul_nt")
def _(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(a.shape[0], b.shape[0])


@torch.library.register_fake("foxflow::matmul_rows")
def _(a: Tensor, b: Tensor, chunk_rows: int) -> Tensor:
    return a.new_empty(-(-a.shape[0] // chunk_rows), a.shape[1], b.shape[1])


@torch.library.register_fake("foxflow::sum_rows")
def _(a: Tensor, chunk_rows: int) -> Tensor:
    return a.new_empty(-(-a.shape[0] // chunk_rows), a.shape[1])


torch.library.register_fake("foxflow::total_rows", lambda *_: None)
torch.library.register_fake("foxflow::accumulate", lambda *_: None)
torch.library.register_fake("foxflow::accumulate_outer", lambda *_: None)


def _matmul_setup(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    a, b, bias = inputs
    ctx.save_for_backward(a, b)
    ctx.biased = bias is not None


def _matmul_backward(ctx, grad):  # type: ignore[no-untyped-def]
    a, b = ctx.saved_tensors
    grad = grad.contiguous()
    rows = max(grad.shape[0], 1)
    return (
        matmul_nt(grad, b),
        matmul_rows(a, grad, rows).sum(0),
        sum_rows(grad, rows).sum(0) if ctx.biased else None,
    )


torch.library.register_autograd("foxflow::matmul", _matmul_backward, setup_context=_matmul_setup)
