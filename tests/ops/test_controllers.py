"""The controllers of the internal state variables: their formulas, their bounds, and what they leave alone."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from bits import DEVICES, assert_bit_equal, clock, fresh_process, sha
from torch import Tensor

from foxflow.errors import Mistake
from foxflow.ops import learn, portable
from foxflow.reference import learn as reference


def f32(x: float) -> Tensor:
    return torch.tensor(x, dtype=torch.float32)


def isv_at_start() -> Tensor:
    return torch.tensor([1, 0.01, 0.99, 0.4, 0.5, 0, 0, 25, 1e-3, 0] + [0] * 6, dtype=torch.float32)


def observed(rows: int, actions: int, device: str = "cpu", seed: int = 0) -> learn.Observed:
    g = torch.Generator().manual_seed(seed)
    done = torch.rand(rows, generator=g) < 0.3
    return learn.Observed(
        pi_logits_BA=(torch.randn(rows, actions, generator=g) * 2).to(device),
        reward_raw_B=torch.randn(rows, generator=g).to(device),
        done_B=done.to(torch.uint8).to(device),
        hold_steps_B=torch.randint(0, 90, (rows,), generator=g, dtype=torch.int32).to(device),
        norm_delta=f32(0.02).to(device),
        norm_weights=f32(11.0).to(device),
    )


def columns(o: learn.Observed) -> list[Tensor]:
    return [o.pi_logits_BA, o.reward_raw_B, o.done_B, o.hold_steps_B, o.norm_delta, o.norm_weights]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("rows", "actions"), [(128, 9), (8, 9), (33, 2), (1, 1)])
def test_controllers_agree_with_float64(rows, actions, device):
    isv = isv_at_start().to(device)
    for step in range(5):
        seen = observed(rows, actions, device, seed=step)
        want = reference.controllers(isv, columns(seen), step, 5)
        learn.controllers(isv, seen, clock(step, device), 5)
        assert torch.allclose(isv.double(), want, rtol=2e-6, atol=1e-9)


@pytest.mark.parametrize("device", DEVICES)
def test_controllers_add_rows_in_chunks_of_32_and_use_the_portable_functions(device):
    seen = observed(70, 9, seed=3)
    logits, reward = seen.pi_logits_BA, seen.reward_raw_B
    top = logits.max(1, keepdim=True).values
    shifted = logits - top
    e = portable.apply("exp", shifted)

    def ascending(x: Tensor, chunk: int) -> Tensor:
        total = torch.zeros_like(x[0])
        for rows in x.split(chunk):
            part = torch.zeros_like(x[0])
            for row in rows:
                part = part + row
            total = total + part
        return total

    log_sum, p = portable.apply("log", ascending(e.T, 9)), e / ascending(e.T, 9)[:, None]
    entropy = torch.zeros(70)
    for a in range(9):
        term = p[:, a].double() * (log_sum - shifted[:, a]).double()
        entropy = (term + entropy.double()).float()
    mean = ascending(entropy, 32) / f32(70)
    absolute = ascending(reward.abs(), 32) / f32(70)
    isv = isv_at_start().to(device)
    learn.controllers(isv, observed(70, 9, device, seed=3), clock(7, device), 20)
    assert_bit_equal(isv[5:7].cpu(), torch.stack([f32(0.05) * (mean - 0), f32(0.05) * (absolute - 0)]))
    power = portable.apply("exp", f32(0.05) * (f32(0.5) * portable.apply("log", f32(9.0)) - isv[5].cpu()))
    assert_bit_equal(isv[1].cpu(), f32(0.01) * power)
    assert_bit_equal(isv[3].cpu(), f32(0.4) + f32(0.6) * f32(7.0) / f32(20.0))


@pytest.mark.parametrize("device", DEVICES)
def test_what_was_not_seen_does_not_move(device):
    seen = observed(8, 9, device)
    still = dataclasses.replace(seen, done_B=torch.zeros_like(seen.done_B), norm_weights=f32(0.0).to(device))
    isv = isv_at_start().to(device)
    learn.controllers(isv, still, clock(0, device), 10)
    assert_bit_equal(isv[[2, 7, 8, 9]].cpu(), isv_at_start()[[2, 7, 8, 9]])
    learn.controllers(isv, seen, clock(0, device), 10)
    assert bool((isv[[2, 7, 8, 9]].cpu() != isv_at_start()[[2, 7, 8, 9]]).all())
    assert float(isv[9]) == float(seen.done_B.sum())


@pytest.mark.parametrize("device", DEVICES)
def test_controllers_stay_in_their_bounds(device):
    low, high = isv_at_start().to(device), isv_at_start().to(device)
    quiet, wild = observed(8, 9, device), observed(8, 9, device)
    quiet.reward_raw_B.zero_()
    quiet.norm_delta.zero_()
    wild.reward_raw_B.mul_(1e6)
    wild.norm_delta.fill_(1e6)
    wild.pi_logits_BA.zero_()
    for step in range(400):
        learn.controllers(low, quiet, clock(step, device), 400)
        learn.controllers(high, wild, clock(step, device), 400)
    assert float(low[0]) == 10.0
    assert float(high[0]) == float(f32(0.1))
    assert float(low[4]) == 4.0
    assert float(high[4]) == float(f32(0.1))
    assert float(high[1]) == float(f32(1e-4))
    assert 0.98 <= float(low[2]) <= 0.999


def all_bits() -> str:
    isv = isv_at_start()
    for step in range(3):
        learn.controllers(isv, observed(1000, 9, seed=step), clock(step), 9)
    return sha(isv)


def test_threads_and_instruction_sets_do_not_change_a_bit():
    code = (
        "import os; os.environ['FOXFLOW_SIMD'] = '{}'\n"
        "import torch; from ops.test_controllers import all_bits\n"
        "torch.set_num_threads({}); print(all_bits())"
    )
    here = {all_bits() for _ in range(3)}
    assert here == {fresh_process(code.format("plain", 1)), fresh_process(code.format("avx2", 2))}


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck(device):
    isv = isv_at_start().to(device)
    args = (isv, *columns(observed(4, 3, device)), clock(0, device), 2)
    torch.library.opcheck(torch.ops.foxflow.controllers.default, args)


def test_mistakes_are_named():
    isv = isv_at_start()
    with pytest.raises(Mistake, match="pi_logits_BA must hold at least one row"):
        learn.controllers(isv, observed(0, 9), clock(0), 2)
    with pytest.raises(Mistake, match=r"step must be in \[0, 2\), got 2"):
        learn.controllers(isv, observed(4, 9), clock(2), 2)
    with pytest.raises(Mistake, match="isv must be contiguous"):
        learn.controllers(torch.zeros(32)[::2], observed(4, 9), clock(0), 2)
    with pytest.raises(Mistake, match="done_B must be uint8"):
        learn.controllers(isv, dataclasses.replace(observed(4, 9), done_B=torch.ones(4)), clock(0), 2)
