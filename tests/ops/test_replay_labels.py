"""Outcome labels of closed trades, in the ring's slots."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from bits import DEVICES, clock

from foxflow.errors import Mistake
from foxflow.ops import replay
from foxflow.reference import replay as reference


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("step", [0, 2, 7, 8, 19])
def test_a_trade_labels_its_steps_that_are_still_in_the_ring(device, step):
    slots, batch = 64, 8
    rng = np.random.default_rng(step)
    done = rng.integers(0, 2, batch).astype(np.uint8)
    pnl, first = rng.integers(-1, 2, batch), rng.integers(0, step + 1, batch)
    outcome = torch.full((slots,), -1, dtype=torch.int32, device=device)
    columns = (torch.from_numpy(x).to(device) for x in (done, pnl, first.astype(np.int32)))
    replay.assign_labels(outcome, clock(step, device), *columns)
    trades = [(b, int(pnl[b]), int(first[b])) if done[b] else None for b in range(batch)]
    assert outcome.tolist() == reference.assign_labels([-1] * slots, batch, step, trades)


@pytest.mark.parametrize("device", DEVICES)
def test_loss_scratch_and_win_are_zero_one_and_two(device):
    outcome = torch.full((16,), -1, dtype=torch.int32, device=device)
    pnl = torch.tensor([-125000, 0, 1, 5], device=device)
    done = torch.tensor([1, 1, 1, 0], dtype=torch.uint8, device=device)
    replay.assign_labels(
        outcome, clock(9, device), done, pnl, torch.tensor([8, 9, 1, 9], dtype=torch.int32, device=device)
    )
    assert outcome.view(4, 4).tolist() == [[0, -1, 2, -1], [0, 1, 2, -1], [-1, -1, 2, -1], [-1, -1, 2, -1]]


def test_a_ring_that_the_batch_does_not_divide_is_named():
    flags = torch.zeros(8, dtype=torch.uint8)
    with pytest.raises(Mistake, match="slot_outcome_C must have a multiple of 8 slots, got 12"):
        replay.assign_labels(torch.zeros(12, dtype=torch.int32), clock(0), flags, flags.long(), flags.int())
    with pytest.raises(Mistake, match=r"step must be in \[0, 2147483648\), got -1"):
        replay.assign_labels(torch.zeros(16, dtype=torch.int32), clock(-1), flags, flags.long(), flags.int())
