"""Rows of a step written into several rings at once."""

from __future__ import annotations

import pytest
import torch
from bits import DEVICES, assert_bit_equal, clock

from foxflow.errors import Mistake
from foxflow.ops import replay

SHAPES = [
    ((3, 7), torch.float32),
    ((), torch.uint8),
    ((5,), torch.int32),
    ((), torch.int64),
    ((9, 1111), torch.float32),
    ((2,), torch.uint8),
]


def rows_of(batch: int, seed: int, device: str) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return [torch.randint(-99, 99, (batch, *shape), generator=g).to(device, dtype) for shape, dtype in SHAPES]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("batch", [1, 3, 8, 16])
def test_a_steps_rows_are_in_its_slots_of_every_ring_and_nowhere_else(device, batch):
    rings = [x.new_zeros(4 * batch, *x.shape[1:]) for x in rows_of(batch, 0, device)]
    want = [ring.clone() for ring in rings]
    for step in (0, 1, 2, 3, 4, 9):
        rows, first = rows_of(batch, step, device), step % 4 * batch
        replay.ring_insert(rings, rows, clock(step, device))
        for ring, fresh in zip(want, rows, strict=True):
            ring[first : first + batch] = fresh
        for ring, expected in zip(rings, want, strict=True):
            assert_bit_equal(ring, expected)


@pytest.mark.parametrize("device", DEVICES)
def test_rows_that_are_a_view_count_by_what_they_stand_for(device):
    ring, rows = torch.zeros(4, 3, device=device), torch.arange(6.0, device=device).view(3, 2).T
    replay.ring_insert([ring], [rows], clock(1, device))
    assert_bit_equal(ring[2:], rows.contiguous())
    assert_bit_equal(ring[:2].cpu(), torch.zeros(2, 3))


@pytest.mark.parametrize("device", DEVICES)
def test_whatever_the_clock_says_the_kernel_writes_inside_the_ring(device):
    ring, rows = torch.zeros(8, device=device), torch.ones(2, device=device)
    torch.ops.foxflow.ring_insert([ring], [rows], clock(-1, device))
    torch.ops.foxflow.ring_insert([ring], [rows], clock(2**62, device))
    assert float(ring.sum()) == 4


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck(device):
    rows = rows_of(2, 1, device)
    rings = [x.new_zeros(8, *x.shape[1:]) for x in rows]
    torch.library.opcheck(torch.ops.foxflow.ring_insert.default, (rings, rows, clock(3, device)))


def test_what_does_not_fit_is_named():
    ring, rows = torch.zeros(8, 3), torch.ones(2, 3)
    with pytest.raises(Mistake, match="rings must be 1 to 16, each with its rows, got 0 and 0"):
        replay.ring_insert([], [], clock(0))
    with pytest.raises(Mistake, match=r"rows\[0\] must be rows of torch.float32 \[3\] on cpu like their ring, got"):
        replay.ring_insert([ring], [rows.double()], clock(0))
    with pytest.raises(Mistake, match=r"rings\[0\] must have a multiple of 3 slots, got 8"):
        replay.ring_insert([ring], [torch.ones(3, 3)], clock(0))
    with pytest.raises(Mistake, match=r"rings\[0\] must be contiguous"):
        replay.ring_insert([torch.zeros(3, 8).T], [rows], clock(0))
    with pytest.raises(Mistake, match=r"step must be in \[0, 2147483648\), got -2"):
        replay.ring_insert([ring], [rows], clock(-2))
    with pytest.raises(RuntimeError, match="a ring must have the dtype of its rows"):
        torch.ops.foxflow.ring_insert([ring], [rows.int()], clock(0))
