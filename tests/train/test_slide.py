"""The encoding of windows that slid on by a row, from what those before left, against that of the whole windows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from bits import DEVICES, assert_bit_equal

from foxflow.agent import encoder
from foxflow.agent.parameters import draw
from foxflow.agent.stage import walk
from foxflow.config import PRESETS


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("preset", ["tiny", "default"])
@pytest.mark.parametrize("batch", [1, 33, 128])
def test_slid_windows_have_the_bits_of_whole_ones(device: str, preset: str, batch: int) -> None:
    s = replace(PRESETS[preset], B=batch)
    w = {key: x.to(device) for key, x in draw(s, 42).items()}
    g = torch.Generator().manual_seed(batch)
    rows, carry = (torch.randn(*size, generator=g).to(device) for size in ((batch, s.T + 1, s.F), (batch, s.H)))
    dt = torch.rand(batch, 2, generator=g).to(device)
    x = {"window": rows[:, : s.T], "carry": carry, "dt": dt[:, 0]}
    walk(encoder.LEARNS, w, s, x)
    slid = encoder.slide(w, s, x, rows[:, s.T :], x["h"], dt[:, 1])
    assert_bit_equal(slid.cpu(), encoder.forward(w, s, rows[:, 1:], x["h"], dt[:, 1]).cpu())
    assert not torch.equal(slid, encoder.slide(w, s, x, rows[:, :1], x["h"], dt[:, 1])), "the new row must show"
