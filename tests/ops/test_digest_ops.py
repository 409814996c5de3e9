"""Lane sums of fx1: those of plain Python integers, for any dtype, alignment, length and schedule."""

from __future__ import annotations

import pytest
import torch
from bits import DEVICES, assert_bit_equal, clock, fresh_process, sha
from torch import Tensor

from foxflow.errors import Mistake
from foxflow.ops import digest

G = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)
S = (0x243F6A8885A308D3, 0x13198A2E03707344)
MASK = 2**64 - 1


def plain_sums(data: bytes, first_word: int = 0) -> list[int]:
    """The definition in Python integers."""
    data += bytes(-len(data) % 8)
    sums = [0, 0]
    for i in range(len(data) // 8):
        word = int.from_bytes(data[8 * i : 8 * i + 8], "little")
        for lane in (0, 1):
            x = word ^ (S[lane] + (first_word + i + 1) * G[lane] & MASK)
            low, high = x & 0xFFFFFFFF, x >> 32
            t = low * high + (low << 32 | high) & MASK
            sums[lane] = sums[lane] + (t ^ t >> 29) & MASK
    return sums


def plain(*buffers: Tensor) -> Tensor:
    rows = [plain_sums(x.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()) for x in buffers]
    return torch.tensor([[s - (s >> 63 << 64) for s in row] for row in rows]).reshape(-1, 2)


def noise(size: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 256, (size,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("device", DEVICES)
def test_every_length_and_alignment_agrees_with_python_integers(device):
    data = noise(400).to(device)
    buffers = [
        data[at : at + size] for at in (0, 1, 4, 8, 16, 17) for size in (0, 1, 3, 7, 8, 9, 15, 16, 17, 64, 71, 300)
    ]
    assert_bit_equal(digest.sums(buffers).cpu(), plain(*buffers))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("at", [0, 3, 8])
def test_a_buffer_of_several_pieces_agrees_with_python_integers(device, at):
    data = noise(540_000).to(device)
    buffers = [data[at : at + 531_005], data[:9], data[at : at + 262_144]]
    assert_bit_equal(digest.sums(buffers).cpu(), plain(*buffers))


@pytest.mark.parametrize("device", DEVICES)
def test_any_dtype_counts_by_its_bytes(device):
    source = noise(96).to(device)
    dtypes = [
        torch.bool,
        torch.int8,
        torch.uint16,
        torch.int32,
        torch.uint32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
    ]
    dtypes += [torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float8_e4m3fn]
    sums = digest.sums([source.view(dtype) for dtype in dtypes]).cpu()
    assert_bit_equal(sums, plain(source).expand(len(dtypes), 2).contiguous())
    assert_bit_equal(digest.sums([torch.tensor(1.5, device=device)]).cpu(), plain(torch.tensor(1.5)))


@pytest.mark.parametrize("device", DEVICES)
def test_a_view_counts_by_what_it_stands_for(device):
    x = torch.arange(12.0, device=device).reshape(3, 4)
    z = torch.complex(x, x + 1)
    views = [x.T, x[:, ::2], x[1:].expand(2, 4), z.conj(), z.conj().imag, x.requires_grad_()]
    meant = [view.detach().resolve_conj().resolve_neg().contiguous() for view in views]
    assert_bit_equal(digest.sums(views).cpu(), plain(*meant))


@pytest.mark.parametrize("device", DEVICES)
def test_nothing_to_digest(device):
    assert digest.sums([]).shape == (0, 2)
    empty = torch.empty(0, 3, device=device)
    assert_bit_equal(digest.sums([empty, empty]).cpu(), torch.zeros(2, 2, dtype=torch.int64))


@pytest.mark.parametrize("device", DEVICES)
def test_one_flipped_bit_changes_both_lanes(device):
    data = noise(64).to(device)
    before = digest.sums([data]).cpu()
    for bit in range(0, 512, 7):
        flipped = data.clone()
        flipped[bit // 8] ^= 1 << bit % 8
        assert bool((digest.sums([flipped]).cpu() != before).all())


@pytest.mark.parametrize("device", DEVICES)
def test_signs_of_zero_swaps_and_shifts_show(device):
    x = torch.tensor([0.0, 1.0, 2.0, 3.0], device=device)
    minus = torch.tensor([-0.0, 1.0, 2.0, 3.0], device=device)
    sums = digest.sums([x, minus, x.flip(0), x.roll(1), torch.cat([x, x[:1]])])
    assert len({tuple(row) for row in sums.tolist()}) == 5


def part_sums(buffers: list[Tensor], step: int, turns: int) -> Tensor:
    """The sums of the parts that a step writes."""
    sums = torch.zeros(len(buffers), 2, dtype=torch.int64, device=buffers[0].device)
    digest.add_turn(sums, buffers, clock(step, buffers[0].device), turns)
    return sums


@pytest.mark.parametrize("device", DEVICES)
def test_turns_add_up_to_the_whole_buffer(device):
    data, small = noise(1_620_000).to(device), noise(24, 1).to(device)
    whole, parts = digest.sums([data, small]), [part_sums([data, small], n, 3) for n in range(3)]
    assert_bit_equal(sum(parts[1:], parts[0]), whole)
    assert_bit_equal(part_sums([data, small], 7, 3), parts[1])
    assert_bit_equal(part_sums([data[:5]], 9, 1), digest.sums([data[:5]]))
    want = [s - (s >> 63 << 64) for s in plain_sums(small.cpu()[16:].numpy().tobytes(), 2)]
    assert parts[2][1].tolist() == want


@pytest.mark.parametrize("device", DEVICES)
def test_a_steps_rows_can_be_taken_out_and_put_in(device):
    ring, now = torch.randn(64, 6, generator=torch.Generator().manual_seed(1)).to(device), clock(9, device)
    sums = digest.sums([ring])
    digest.add_turn(sums, [ring], now, 8, away=True)
    assert_bit_equal(sums, digest.sums([ring]) - part_sums([ring], 9, 8))
    ring[8:16] = 7.0
    digest.add_turn(sums, [ring], now, 8)
    assert_bit_equal(sums, digest.sums([ring]))


@pytest.mark.parametrize("device", DEVICES)
def test_sums_are_added_to_what_is_there(device):
    first, second = noise(90, 1).to(device), noise(70, 2).to(device)
    rows = torch.zeros(3, 2, dtype=torch.int64, device=device)
    digest.add(rows[1:], [first, second])
    digest.add(rows[:1], [second])
    assert_bit_equal(rows, digest.sums([second, first, second]))
    digest.add(rows, [second, second, first])
    assert_bit_equal(rows, digest.sums([second, first, second]) + digest.sums([second, second, first]))


def buffers_of_all_sizes() -> list[Tensor]:
    return [noise(size, size) for size in (5, 1_000_001, 0, 40, 700_000, *range(1000, 1100), *range(1, 900))]


def test_threads_and_instruction_sets_do_not_change_a_bit():
    code = (
        "import os; os.environ['FOXFLOW_SIMD'] = '{}'\n"
        "import torch; from ops.test_digest_ops import buffers_of_all_sizes, digest; from bits import sha\n"
        "torch.set_num_threads({}); print(sha(digest.sums(buffers_of_all_sizes())))"
    )
    here = {sha(digest.sums(buffers_of_all_sizes())) for _ in range(3)}
    assert here == {fresh_process(code.format("plain", 1)), fresh_process(code.format("avx2", 2))}


@pytest.mark.gpu
def test_the_gpu_gives_the_sums_of_the_cpu():
    buffers = buffers_of_all_sizes()
    assert_bit_equal(digest.sums([x.cuda() for x in buffers]).cpu(), digest.sums(buffers))


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck(device):
    x = noise(100).to(device)
    sums = torch.zeros(2, 2, dtype=torch.int64, device=device)
    torch.library.opcheck(torch.ops.foxflow.digest.default, (sums, [x, x[:9]]))
    torch.library.opcheck(torch.ops.foxflow.digest_turn.default, (sums, [x[:80], x[:16]], clock(3, device), 2, True))


def test_mistakes_are_named():
    x, sums = torch.ones(4), torch.zeros(1, 2, dtype=torch.int64)
    with pytest.raises(Mistake, match=r"buffers\[1\] must be dense, got torch\.sparse_coo"):
        digest.sums([x, x.to_sparse()])
    with pytest.raises(Mistake, match=r"buffers\[1\] must be on cpu like its sums, got meta"):
        digest.sums([x, x.to("meta")])
    with pytest.raises(Mistake, match=r"buffers\[0\] must be 4 parts of whole words of 8 bytes, got 16 bytes"):
        part_sums([x], 0, 4)
    with pytest.raises(Mistake, match=r"step must be in \[0, 2147483648\), got -1"):
        part_sums([x], -1, 2)
    with pytest.raises(RuntimeError, match="a buffer must be contiguous"):
        torch.ops.foxflow.digest(sums, [torch.ones(2, 2).T])
    with pytest.raises(RuntimeError, match="a turn's part must be a multiple of 8 bytes"):
        torch.ops.foxflow.digest_turn(sums, [x], clock(0), 4, False)
    with pytest.raises(Mistake, match=r"sums must have 2 on axis 0 \(buffers\), got 1"):
        digest.add(sums, [x, x])
