"""Matrix products and row sums: right, differentiable, and one order of addition everywhere."""

from __future__ import annotations

import math

import pytest
import torch
from bits import DEVICES, assert_bit_equal, assert_close, fresh_process, sha

from foxflow.errors import Mistake
from foxflow.ops import linalg
from foxflow.reference import linalg as reference

SHAPES = [(1, 1, 1), (7, 56, 9), (64, 128, 296), (130, 33, 31), (5, 0, 3)]


def matrices(m: int, k: int, n: int, device: str = "cpu", dtype: torch.dtype = torch.float32):
    g = torch.Generator().manual_seed(m * 10007 + k * 101 + n)
    make = lambda *shape: torch.randn(*shape, generator=g, dtype=dtype).to(device)  # noqa: E731
    return make(m, k), make(k, n), make(n)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", SHAPES)
def test_products_agree_with_float64(device, shape):
    a, b, bias = matrices(*shape, device)
    assert_close(linalg.matmul(a, b, bias), reference.matmul(a, b, bias), rtol=2e-6)
    assert_close(linalg.matmul_nt(a, b.T.contiguous()), reference.matmul_nt(a, b.T), rtol=2e-6)
    rows = a.T.contiguous()
    if rows.shape[0]:
        assert_close(linalg.matmul_rows(rows, b, 32), reference.matmul_rows(rows, b, 32), rtol=2e-6)
        assert_close(linalg.sum_rows(b, 32), reference.sum_rows(b, 32), rtol=2e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_each_element_is_one_ascending_fused_chain(device):
    """float64 holds a float32 product exactly, so rounding each exact sum once gives the fmaf chain."""
    a, b, _ = matrices(6, 40, 35, device)
    want = torch.zeros(6, 35)
    for k in range(40):
        exact = [[math.fsum([float(a[i, k]) * float(b[k, j]), float(want[i, j])]) for j in range(35)] for i in range(6)]
        want = torch.tensor(exact, dtype=torch.float64).float()
    assert_bit_equal(linalg.matmul(a, b).cpu(), want)
    assert not torch.equal(linalg.matmul(a.flip(1), b.flip(0)).cpu(), want), "another order must show"


@pytest.mark.parametrize("device", DEVICES)
def test_products_that_copy_their_operands_are_the_same_chains(device):
    """Several panels wide and several slices deep; where rows of a lie as columns, the last ones' copy begins early."""
    a, b, _ = matrices(17, 200, 35, device)
    exact, want = a.double().cpu()[:, :, None] * b.double().cpu(), torch.zeros(17, 35)
    for k in range(200):
        pairs = zip(exact[:, k].flatten().tolist(), want.flatten().tolist(), strict=True)
        want = torch.tensor([math.fsum(pair) for pair in pairs], dtype=torch.float64).view(17, 35).float()
    assert_bit_equal(linalg.matmul(a, b).cpu(), want)
    assert_bit_equal(linalg.matmul_nt(a, b.T.contiguous()).cpu(), want)
    assert_bit_equal(linalg.matmul_rows(a.T.contiguous(), b, 200)[0].cpu(), want)
    assert not torch.equal(linalg.matmul_rows(a.T.flip(0).contiguous(), b.flip(0), 200)[0].cpu(), want)


@pytest.mark.parametrize("level", ["plain", "avx2", "avx512"])
def test_the_instruction_set_does_not_change_a_bit(level):
    a, b, bias = matrices(130, 400, 189)
    here = sha(linalg.matmul(a, b, bias), linalg.matmul_nt(a, b.T), linalg.matmul_rows(a.T, b, 200))
    code = (
        "import os; os.environ['FOXFLOW_SIMD'] = {!r}\n"
        "from ops.test_linalg import matrices; from bits import sha; from foxflow.ops import linalg\n"
        "a, b, bias = matrices(130, 400, 189)\n"
        "print(sha(linalg.matmul(a, b, bias), linalg.matmul_nt(a, b.T), linalg.matmul_rows(a.T, b, 200)))"
    )
    assert fresh_process(code.format(level)) == here


@pytest.mark.parametrize("device", DEVICES)
def test_a_chunk_starts_at_plus_zero(device):
    minus = torch.full((1, 1), -0.0, device=device)
    assert_bit_equal(linalg.sum_rows(minus, 1).cpu(), torch.zeros(1, 1))
    assert_bit_equal(linalg.matmul(minus, torch.ones(1, 1, device=device)).cpu(), torch.zeros(1, 1))


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(33_000, 128, 296), (40_001, 56, 60), (40_000, 70, 64), (34_000, 9, 128)])
def test_large_products_have_the_bits_of_the_cpu(shape):
    """Each fills the GPU twice: edges of rows, columns and k, and operands that vectors of four do not reach."""
    a, b, bias = matrices(*shape)
    on = [x.cuda() for x in (a, b, bias)]
    assert_bit_equal(linalg.matmul(*on).cpu(), linalg.matmul(a, b, bias))
    assert_bit_equal(linalg.matmul_nt(on[0], on[1].T.contiguous()).cpu(), linalg.matmul(a, b))
    shifted = torch.cat([on[0].flatten().new_zeros(1), on[0].flatten()])[1:].view(on[0].shape)
    assert_bit_equal(linalg.matmul(shifted, on[1]).cpu(), linalg.matmul(a, b))


@pytest.mark.gpu
@pytest.mark.parametrize(("m", "n", "chunk_rows"), [(128, 296, 512), (56, 128, 77), (100, 60, 500), (64, 9, 64)])
def test_large_sums_of_outer_products_have_the_bits_of_the_cpu(m, n, chunk_rows):
    a, b = matrices(40_000, m, 1)[0], matrices(40_000, n, 2)[0]
    want = linalg.matmul_rows(a, b, chunk_rows)
    assert_bit_equal(linalg.matmul_rows(a.cuda(), b.cuda(), chunk_rows).cpu(), want)


def test_threads_and_fresh_processes_do_not_change_a_bit():
    a, b, bias = matrices(130, 128, 296)
    code = (
        "import torch; from ops.test_linalg import matrices; from bits import sha; from foxflow.ops import linalg\n"
        "torch.set_num_threads({}); a, b, bias = matrices(130, 128, 296)\n"
        "print(sha(linalg.matmul(a, b, bias), linalg.matmul_rows(b, b, 32)))"
    )
    here = {sha(linalg.matmul(a, b, bias), linalg.matmul_rows(b, b, 32)) for _ in range(3)}
    assert here == {fresh_process(code.format(1)), fresh_process(code.format(2))}


@pytest.mark.parametrize("device", DEVICES)
def test_gradient_of_the_product(device):
    a, b, bias = (x.requires_grad_() for x in matrices(4, 5, 3, device, torch.float64))
    assert torch.autograd.gradcheck(linalg.matmul, (a, b, bias), nondet_tol=0.0)


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck(device):
    a, b, bias = matrices(4, 5, 3, device)
    torch.library.opcheck(torch.ops.foxflow.matmul.default, (a.requires_grad_(), b, bias))
    torch.library.opcheck(torch.ops.foxflow.matmul_nt.default, (a.detach(), b.T.contiguous()))
    torch.library.opcheck(torch.ops.foxflow.matmul_rows.default, (b, b, 2))
    torch.library.opcheck(torch.ops.foxflow.sum_rows.default, (b, 2))


@pytest.mark.parametrize("device", DEVICES)
def test_totals_of_parts_of_every_size_are_laid_end_to_end(device):
    """Sizes around the spans of 256 columns; a chain from +0 with one NaN, and nothing written beside them."""
    parts = [matrices(rows, n, 1, device)[0] for rows, n in ((1, 1), (4, 255), (33, 256), (7, 0), (0, 5), (128, 700))]
    parts.append(torch.tensor([[-0.0, -math.nan], [-0.0, 1.0]], device=device))
    wanted = [linalg.sum_rows(x, max(len(x), 1)).view(-1) if len(x) else x.new_zeros(x.shape[1]) for x in parts[:-1]]
    whole = torch.full((sum(x.shape[1] for x in parts) + 2,), 7.0, device=device)
    linalg.total_rows(whole[1:-1], parts)
    assert_bit_equal(whole[1:-3].cpu(), torch.cat(wanted).cpu())
    assert whole[-3:-1].view(torch.int32).tolist() == [0, 0x7FC00000]
    assert whole[0] == whole[-1] == 7
    torch.library.opcheck(torch.ops.foxflow.total_rows.default, (whole[1:-1].clone(), parts))


@pytest.mark.parametrize("device", DEVICES)
def test_kept_sums_of_every_size_are_added_to_by_one_launch(device):
    """Sizes around the spans of 2,048 elements, nothing written beside them."""
    sizes = [1, 2047, 2048, 2049, 0, 10_000]
    fresh = [matrices(1, 1, n, device)[2] for n in sizes]
    whole = [torch.full((n + 2,), 7.0, device=device) for n in sizes]
    sums = [x[1:-1] for x in whole]
    linalg.accumulate(sums, fresh, begin=True)
    for total, more in zip(sums, fresh, strict=True):
        assert_bit_equal(total.cpu(), more.cpu())
    linalg.accumulate(sums, fresh)
    linalg.accumulate(sums, [2 * more for more in fresh])
    for x, total, more in zip(whole, sums, fresh, strict=True):
        assert_bit_equal(total.cpu(), ((more + more) + 2 * more).cpu())
        assert x[0] == x[-1] == 7


@pytest.mark.parametrize("device", DEVICES)
def test_kept_sums_begin_at_plus_zero_and_have_one_nan(device):
    total, fresh = torch.full((3,), 5.0, device=device), torch.tensor([-0.0, math.nan, -math.nan], device=device)
    linalg.accumulate([total], [fresh], begin=True)
    assert total.view(torch.int32).tolist() == [0, 0x7FC00000, 0x7FC00000]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("edge", [1, 4])
@pytest.mark.parametrize(
    ("rows", "m", "n"), [(3, 128, 128), (5, 7, 12), (4, 9, 5), (2, 3, 5000), (0, 4, 4), (1, 33, 64)]
)
@pytest.mark.parametrize("passes", [1, 2, 3, 8])
@pytest.mark.parametrize("begin", [True, False])
def test_outer_products_of_all_passes_are_added_in_their_order(device, rows, m, n, edge, passes, begin):
    """Nothing written beside the sum; even and odd columns and places, and more columns than a block takes."""
    a = [matrices(rows, m, i, device)[0] for i in range(passes)]
    b = [matrices(rows, n, passes + i, device)[0] for i in range(passes)]
    whole = torch.full((rows * m * n + 2 * edge,), 7.0, device=device)
    total = whole[edge:-edge].view(rows, m, n)
    want = torch.zeros_like(total) if begin else total.clone()
    for a_RM, b_RN in zip(a, b, strict=True):
        want = want + a_RM[:, :, None] * b_RN[:, None, :]
    linalg.accumulate_outer(total, a, b, begin=begin)
    assert_bit_equal(total.cpu(), want.cpu())
    assert bool((whole[:edge] == 7).all() and (whole[-edge:] == 7).all())


def test_the_order_of_passes_shows():
    """Twin of the test above: another order would be seen."""
    a, b = ([matrices(4, n, i)[0] for i in range(3)] for n in (9, 5))
    there, back = torch.empty(2, 4, 9, 5)
    linalg.accumulate_outer(there, a, b, begin=True)
    linalg.accumulate_outer(back, a[::-1], b[::-1], begin=True)
    assert not torch.equal(there, back)


@pytest.mark.parametrize("device", DEVICES)
def test_outer_products_begin_at_plus_zero_and_have_one_nan(device):
    total = torch.full((1, 1, 3), 5.0, device=device)
    a, b = torch.ones(1, 1, device=device), torch.tensor([[-0.0, math.nan, -math.nan]], device=device)
    linalg.accumulate_outer(total, [a, a], [b, b], begin=True)
    assert total.view(torch.int32).tolist() == [[[0, 0x7FC00000, 0x7FC00000]]]
    torch.library.opcheck(torch.ops.foxflow.accumulate_outer.default, (total, [a, a], [b, b], False))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", [7, 64, 70])
def test_products_of_the_library_are_the_same_sums_in_another_order(device, rows):
    a, b, bias = matrices(rows, 33, 31, device)
    x, g, _ = matrices(rows, rows, 9, device)
    with linalg.products("cublas"):
        found = linalg.matmul(a, b, bias), linalg.matmul(a, b), linalg.matmul_nt(a, b.T), linalg.matmul_rows(x, g, 32)
    wanted = linalg.matmul(a, b, bias), linalg.matmul(a, b), linalg.matmul_nt(a, b.T), linalg.matmul_rows(x, g, 32)
    for mine, want in zip(found, wanted, strict=True):
        assert_close(mine, want, rtol=1e-5)


def test_wrong_shapes_are_named():
    a, b, _ = matrices(4, 5, 3)
    with pytest.raises(Mistake, match=r"b_KN must have 5 on axis 0 \(a_MK's columns\), got 4"):
        linalg.matmul(a, b[:4])
    with pytest.raises(Mistake, match="chunk_rows must be at least 1, got 0"):
        linalg.sum_rows(a, 0)
    with pytest.raises(Mistake, match="a_MK must be 2-D"):
        linalg.matmul(a[0], b)
    with pytest.raises(Mistake, match=r"out_N must have 8 on axis 0 \(the columns of all parts\), got 7"):
        linalg.total_rows(torch.empty(7), [a, b])
    with pytest.raises(Mistake, match="parts must be 1 to 64, got 65"):
        linalg.total_rows(torch.empty(195), [b] * 65)
    with pytest.raises(Mistake, match="sums must be 1 to 64, with as many fresh, got 1 and 0"):
        linalg.accumulate([a], [])
    with pytest.raises(Mistake, match=r"fresh\[0\] must be float32 \[4, 5\] on cpu, got torch.float32 \[5, 3\]"):
        linalg.accumulate([a], [b])
    with pytest.raises(Mistake, match=r"sums\[0\] must be contiguous"):
        linalg.accumulate([a.T], [a.T])
    with pytest.raises(Mistake, match="a_RM must be 1 to 8, with as many b_RN, got 1 and 0"):
        linalg.accumulate_outer(torch.ones(4, 5, 3), [a], [])
    with pytest.raises(Mistake, match=r"a_RM\[0\] must have 4 on axis 1 \(M\), got 5"):
        linalg.accumulate_outer(torch.ones(4, 4, 3), [a], [torch.ones(4, 3)])
    with pytest.raises(Mistake, match=r"b_RN\[1\] must have 4 on axis 0 \(R\), got 5"):
        linalg.accumulate_outer(torch.ones(4, 5, 3), [a, a], [torch.ones(4, 3), torch.ones(5, 3)])
    with pytest.raises(Mistake, match="sum_RMN must be contiguous"):
        linalg.accumulate_outer(torch.ones(5, 4, 3).transpose(0, 1), [a], [torch.ones(4, 3)])
