"""Norms, Adam, target copies, mean losses and controllers: right, in the stated order, to the bit."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from bits import DEVICES, assert_bit_equal, assert_close, fresh_process, sha
from torch import Tensor

from foxflow.errors import Mistake
from foxflow.ops import learn, portable
from foxflow.reference import learn as reference

OFFSETS = [0, 700, 700, 956, 957, 1300]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def f32(x: float) -> Tensor:
    return torch.tensor(x, dtype=torch.float32)


def isv_at_start() -> Tensor:
    return torch.tensor([1, 0.01, 0.99, 0.4, 0.5, 0, 0, 25, 1e-3, 0] + [0] * 6, dtype=torch.float32)


def weights(size: int, device: str = "cpu", seed: int = 0) -> tuple[learn.AdamState, Tensor, Tensor]:
    """State after some steps, gradient and isv."""
    g = generator(seed)
    w, m, grad = (torch.randn(size, generator=g) for _ in range(3))
    v = torch.rand(size, generator=g)
    isv = isv_at_start()
    isv[0] = 1.3
    state = [w, m * 0.1, v * 0.01, torch.tensor([0.9**3, 0.999**3])]
    w, m, v, beta = (x.to(device) for x in state)
    return learn.AdamState(w_W=w, m_W=m, v_W=v, beta_2=beta), (grad * 0.1).to(device), isv.to(device)


def parts(state: learn.AdamState) -> list[Tensor]:
    return [state.w_W, state.m_W, state.v_W, state.beta_2]


def observed(rows: int, actions: int, device: str = "cpu", seed: int = 0) -> learn.Observed:
    g = generator(seed)
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
def test_norms_agree_with_float64(device):
    x = torch.randn(1300, generator=generator(0)).to(device)
    norm = learn.group_norm(x, OFFSETS)
    assert_close(norm, reference.group_norm(x, OFFSETS), rtol=1e-6)
    assert_bit_equal(norm[1:2].cpu(), torch.zeros(1))


@pytest.mark.parametrize("device", DEVICES)
def test_a_norm_adds_fused_squares_in_chunks_of_256_from_its_groups_start(device):
    x = torch.randn(1300, generator=generator(1))

    def norm(values: list[float], chunk: int) -> Tensor:
        total = f32(0.0)
        for begin in range(0, len(values), chunk):
            part = 0.0
            for value in values[begin : begin + chunk]:
                part = float(f32(math.fsum([value * value, part])))
            total = total + f32(part)
        return total.sqrt()

    want = torch.stack([norm(x[a:b].tolist(), 256) for a, b in pairwise(OFFSETS)])
    assert_bit_equal(learn.group_norm(x.to(device), OFFSETS).cpu(), want)
    others = {float(norm(x[:700].tolist(), chunk)) for chunk in (1, 64, 128, 200, 700)}
    assert others != {float(want[0])}, "another chunk length must show"


@pytest.mark.parametrize("device", DEVICES)
def test_a_norm_of_nan_is_the_one_nan(device):
    x = torch.tensor([-1, 5], dtype=torch.int32).view(torch.float32).to(device)
    assert learn.group_norm(x, [0, 1, 2]).view(torch.int32)[0].item() == 0x7FC00000


@pytest.mark.parametrize("device", DEVICES)
def test_adam_agrees_with_float64(device):
    state, grad, isv = weights(1300, device)
    norm = learn.group_norm(grad, OFFSETS)
    assert bool((norm > 1).any())
    assert bool((norm < 1).any())
    want = reference.adam([x.clone() for x in parts(state)], grad, norm, OFFSETS, isv)
    before = state.w_W.clone()
    learn.adam(state, grad, norm, OFFSETS, isv)
    for got, exact in zip(parts(state), want, strict=True):
        assert_close(got, exact, rtol=1e-6)
    assert_close(state.w_W.double() - before.double(), want[0] - before.double(), rtol=1e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_adam_rounds_every_operation_apart_in_its_stated_order(device):
    state, grad, isv = weights(1300, device, seed=2)
    norm = learn.group_norm(grad, OFFSETS)
    w, m, v, beta = (x.cpu().clone() for x in parts(state))
    scale = torch.where(norm.cpu() > 1, f32(1.0) / norm.cpu(), f32(1.0))
    g = grad.cpu() * scale.repeat_interleave(torch.tensor([b - a for a, b in pairwise(OFFSETS)]))
    for _ in range(2):
        beta = beta * torch.tensor([0.9, 0.999])
        m = f32(0.9) * m + f32(0.1) * g
        v = f32(0.999) * v + f32(0.001) * g * g
        mean, square = m / (f32(1.0) - beta[0]), v / (f32(1.0) - beta[1])
        root = torch.from_numpy(np.sqrt(square.numpy()))  # torch's own root of a vector is not the nearest float
        w = w - f32(3e-4) * isv.cpu()[0] * mean / (root + f32(1e-8))
        learn.adam(state, grad, norm, OFFSETS, isv)
    for got, want in zip(parts(state), (w, m, v, beta), strict=True):
        assert_bit_equal(got.cpu(), want)


@pytest.mark.parametrize("device", DEVICES)
def test_a_weight_without_gradient_or_moments_stays(device):
    state, grad, isv = weights(40, device)
    for x in (state.m_W, state.v_W, grad):
        x.zero_()
    before = state.w_W.clone()
    learn.adam(state, grad, learn.group_norm(grad, [0, 40]), [0, 40], isv)
    assert_bit_equal(state.w_W, before)


@pytest.mark.parametrize("device", DEVICES)
def test_a_nan_gradient_leaves_the_one_nan(device):
    state, grad, isv = weights(3, device)
    grad[1] = torch.tensor(-1, dtype=torch.int32).view(torch.float32)
    learn.adam(state, grad, learn.group_norm(grad, [0, 3]), [0, 3], isv)
    for x in (state.w_W, state.m_W, state.v_W):
        assert x.isnan().tolist() == [False, True, False]
        assert x.view(torch.int32)[1].item() == 0x7FC00000


@pytest.mark.parametrize("device", DEVICES)
def test_polyak_rounds_products_and_sum_apart(device):
    target, source = (torch.randn(70_000, generator=generator(s)) for s in (0, 1))
    got = target.clone().to(device)
    learn.polyak(got, source.to(device))
    assert_bit_equal(got.cpu(), f32(0.995) * target + f32(0.005) * source)
    assert_close(got, reference.polyak(target, source), rtol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", [1, 8, 31, 32, 33, 128, 200])
def test_mean_losses_agree_with_float64_and_with_chunks_of_32(rows, device):
    g = generator(rows)
    loss, weight = torch.randn(rows, generator=g), torch.rand(rows, generator=g)
    label = torch.randint(-1, 3, (rows,), generator=g, dtype=torch.int32)
    for w, y in ((None, None), (weight, None), (None, label), (weight, label)):
        got = learn.mean_loss(*(x if x is None else x.to(device) for x in (loss, w, y)))
        assert got.shape == ()
        total = f32(0.0)
        for begin in range(0, rows, 32):
            part = f32(0.0)
            for b in range(begin, min(begin + 32, rows)):
                part = part + (loss[b] if w is None else loss[b] * w[b])
            total = total + part
        count = rows if y is None else max(1, int((y >= 0).sum()))
        assert_bit_equal(got.cpu(), total / f32(count))
        assert abs(float(got) - float(reference.mean_loss(loss, w, y))) < 1e-6


@pytest.mark.parametrize("device", DEVICES)
def test_no_labelled_row_divides_by_one(device):
    label = torch.full((4,), -1, dtype=torch.int32, device=device)
    assert_bit_equal(learn.mean_loss(torch.zeros(4, device=device), None, label).cpu(), f32(0.0))
    assert float(learn.mean_loss(torch.ones(4, device=device), None, label)) == 4.0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("rows", "actions"), [(128, 9), (8, 9), (33, 2), (1, 1)])
def test_controllers_agree_with_float64(rows, actions, device):
    isv = isv_at_start().to(device)
    for step in range(5):
        seen = observed(rows, actions, device, seed=step)
        want = reference.controllers(isv, columns(seen), step, 5)
        learn.controllers(isv, seen, step, 5)
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
    learn.controllers(isv, observed(70, 9, device, seed=3), 7, 20)
    assert_bit_equal(isv[5:7].cpu(), torch.stack([f32(0.05) * (mean - 0), f32(0.05) * (absolute - 0)]))
    power = portable.apply("exp", f32(0.05) * (f32(0.5) * portable.apply("log", f32(9.0)) - isv[5].cpu()))
    assert_bit_equal(isv[1].cpu(), f32(0.01) * power)
    assert_bit_equal(isv[3].cpu(), f32(0.4) + f32(0.6) * f32(7.0) / f32(20.0))


@pytest.mark.parametrize("device", DEVICES)
def test_what_was_not_seen_does_not_move(device):
    seen = observed(8, 9, device)
    still = dataclasses.replace(seen, done_B=torch.zeros_like(seen.done_B), norm_weights=f32(0.0).to(device))
    isv = isv_at_start().to(device)
    learn.controllers(isv, still, 0, 10)
    assert_bit_equal(isv[[2, 7, 8, 9]].cpu(), isv_at_start()[[2, 7, 8, 9]])
    learn.controllers(isv, seen, 0, 10)
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
        learn.controllers(low, quiet, step, 400)
        learn.controllers(high, wild, step, 400)
    assert float(low[0]) == 10.0
    assert float(high[0]) == float(f32(0.1))
    assert float(low[4]) == 4.0
    assert float(high[4]) == float(f32(0.1))
    assert float(high[1]) == float(f32(1e-4))
    assert 0.98 <= float(low[2]) <= 0.999


def all_bits() -> str:
    state, grad, isv = weights(300_001)
    offsets = [0, 100_000, 100_000, 300_001]
    norm = learn.group_norm(grad, offsets)
    for _ in range(2):
        learn.adam(state, grad, norm, offsets, isv)
    target = torch.zeros(300_001)
    learn.polyak(target, state.w_W)
    seen = observed(1000, 9)
    learn.controllers(isv, seen, 3, 9)
    mean = learn.mean_loss(seen.reward_raw_B, seen.reward_raw_B, seen.hold_steps_B)
    return sha(*parts(state), norm, target, isv, mean)


def test_threads_and_instruction_sets_do_not_change_a_bit():
    code = (
        "import os; os.environ['FOXFLOW_SIMD'] = '{}'\n"
        "import torch; from ops.test_learn import all_bits\n"
        "torch.set_num_threads({}); print(all_bits())"
    )
    here = {all_bits() for _ in range(3)}
    assert here == {fresh_process(code.format("plain", 1)), fresh_process(code.format("avx2", 2))}


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck(device):
    ops = torch.ops.foxflow
    state, grad, isv = weights(9, device)
    norm = learn.group_norm(grad, [0, 4, 9])
    torch.library.opcheck(ops.group_norm.default, (grad, [0, 4, 9]))
    torch.library.opcheck(ops.adam.default, (state.w_W, grad, *parts(state)[1:], norm, [0, 4, 9], isv))
    torch.library.opcheck(ops.polyak.default, (grad, state.w_W))
    torch.library.opcheck(ops.mean_loss.default, (grad, grad, None))
    torch.library.opcheck(ops.controllers.default, (isv, *columns(observed(4, 3, device)), 0, 2))


def test_mistakes_are_named():
    state, grad, isv = weights(9)
    norm = learn.group_norm(grad, [0, 9])
    with pytest.raises(Mistake, match="offsets must rise from 0 to 9"):
        learn.group_norm(grad, [0, 5, 4, 9])
    with pytest.raises(Mistake, match="grad_W must have 9 on axis 0"):
        learn.adam(state, grad[:8], norm, [0, 9], isv)
    with pytest.raises(Mistake, match="norm_G must have 2 on axis 0"):
        learn.adam(state, grad, norm, [0, 4, 9], isv)
    with pytest.raises(Mistake, match="isv must have 16 on axis 0"):
        learn.adam(state, grad, norm, [0, 9], isv[:10])
    with pytest.raises(Mistake, match="target_W must be contiguous, since it is changed in place"):
        learn.polyak(torch.zeros(18)[::2], grad)
    with pytest.raises(Mistake, match="row_loss_B must hold at least one row"):
        learn.mean_loss(grad[:0])
    with pytest.raises(Mistake, match="label_B must be int32"):
        learn.mean_loss(grad, None, grad)
    with pytest.raises(Mistake, match="pi_logits_BA must hold at least one row"):
        learn.controllers(isv, observed(0, 9), 0, 2)
    with pytest.raises(Mistake, match=r"step must be in \[0, 2\), got 2"):
        learn.controllers(isv, observed(4, 9), 2, 2)
    with pytest.raises(RuntimeError, match="offsets must run from 0 to 9"):
        torch.ops.foxflow.group_norm(grad, [0, 8])
