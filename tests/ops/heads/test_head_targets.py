"""Targets: the projection keeps all mass, and products and sums round apart."""

from __future__ import annotations

import pytest
import torch
from bits import DEVICES, assert_bit_equal, assert_close
from ops.heads.head_cases import DEFAULT, TINY, arguments, operator

from foxflow.ops import dueling, targets


def isv_of(gamma: float, device: str) -> torch.Tensor:
    isv = torch.zeros(16, device=device)
    isv[2] = gamma
    return isv


def one_row(reward: float, done: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([reward], device=device), torch.tensor([done], dtype=torch.uint8, device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("reward", "atom"), [(0.0, 10), (-2.0, 0), (2.0, 20), (-9.0, 0), (9.0, 20), (0.6, 13)])
def test_a_reward_that_hits_an_atom_gives_it_all_the_mass(reward, atom, device):
    """At the end of an episode every atom lands there; lower and upper neighbour are one, and no mass may vanish."""
    logits = torch.zeros(1, 2, 21, device=device)
    target = targets.c51_target(logits, *one_row(reward, 1, device), isv_of(0.99, device))[0]
    assert abs(float(target[atom]) - 1) < 2e-6
    assert float(target.sum() - target[atom]) < 2e-6


@pytest.mark.parametrize("device", DEVICES)
def test_the_projection_of_an_unmoved_distribution_is_itself(device):
    """With five atoms every place is exact, so only the softmax rounds; the sum of one term is the term."""
    logits = torch.tensor([[[0.0, 1.0, -2.0, 0.5, 3.0]]], device=device)
    target = targets.c51_target(logits, *one_row(0.0, 0, device), isv_of(1.0, device))
    assert_close(target, torch.softmax(logits[:, 0].double(), 1), rtol=2e-7)
    half = targets.c51_target(logits, *one_row(0.5, 0, device), isv_of(1.0, device))
    wanted = (target + torch.cat([torch.zeros_like(target[:, :1]), target[:, :-1]], 1)) / 2
    wanted[:, -1] += target[:, -1] / 2
    assert_close(half, wanted, rtol=2e-7)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [DEFAULT, TINY])
def test_the_projection_keeps_all_mass(shape, device):
    target = targets.c51_target(*arguments(shape, device)["c51_target"])
    assert float((target.double().sum(1) - 1).abs().max()) < 1e-6
    assert float(target.min()) >= 0.0


@pytest.mark.parametrize("device", DEVICES)
def test_the_greedy_action_of_equal_means_is_the_lowest(device):
    """Action 1 is symmetric around 0 as action 0 is, but of another shape; action 2 is worse."""
    wide, narrow, low = [3.0, 0.0, 0.0, 0.0, 3.0], [0.0, 0.0, 3.0, 0.0, 0.0], [9.0, 0.0, 0.0, 0.0, 0.0]
    rows = one_row(0.0, 0, device)
    for first, second in ((wide, narrow), (narrow, wide)):
        both = targets.c51_target(torch.tensor([[first, second, low]], device=device), *rows, isv_of(1.0, device))
        alone = targets.c51_target(torch.tensor([[first]], device=device), *rows, isv_of(1.0, device))
        assert_bit_equal(both, alone)
    q = torch.tensor([[[1.0, 0.0, -1.0], [1.0, 2.0, -1.0]]], device=device)
    assert targets.iqn_target(q, *rows, isv_of(1.0, device)).tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("device", DEVICES)
def test_an_action_is_greedy_by_its_mean_not_by_one_quantile(device):
    q = torch.tensor([[[5.0, 2.0], [-9.0, 2.5]]], device=device)
    assert targets.iqn_target(q, *one_row(1.0, 0, device), isv_of(0.5, device)).tolist() == [[2.0, 2.25]]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["v_target", "dueling_target"])
def test_discount_and_sum_round_apart_and_done_stops_them(name, device):
    x, reward, done, isv = arguments(DEFAULT, device)[name]
    best = x.max(1).values
    rounded = reward + torch.where(done.bool(), torch.zeros_like(best), isv[2]) * best
    fused = (reward.double() + isv[2].double() * best.double()).float()
    assert_bit_equal(operator(name)(x, reward, done, isv), rounded)
    assert not torch.equal(fused[done == 0], rounded[done == 0]), "a fused multiply-add must show"
    assert_close(rounded[done == 1], reward[done == 1], rtol=0.0)


@pytest.mark.parametrize("device", DEVICES)
def test_sums_over_actions_ascend(device):
    """1e8 + 1 rounds to 1e8: added from either end the row gives 0, with 1 added last it gives 1."""
    row = torch.tensor([[1e8, 1.0, -1e8]], device=device)
    assert dueling.dueling_split(row)[0].item() == 0.0
    assert dueling.dueling_split(row.flip(1))[0].item() == 0.0
    assert dueling.dueling_split(row[:, [0, 2, 1]])[0].item() == 1.0
    zero = torch.zeros(1, 1, device=device)
    assert dueling.dueling_compose(zero, row[:, [0, 2, 1]])[0].tolist() == [1e8, -1e8, float(1 - torch.tensor(1 / 3))]
    assert_bit_equal(dueling.dueling_split(-zero)[0].cpu(), torch.zeros(1, 1))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["c51_target", "v_target", "iqn_target", "dueling_target"])
def test_a_reward_that_is_nan_shows_in_its_row_alone_as_one_nan(name, device):
    x, reward, done, isv = arguments(TINY, device)[name]
    reward[2] = torch.tensor([-4194303], dtype=torch.int32).view(torch.float32)[0]
    target = operator(name)(x, reward, done, isv).cpu().view(TINY.B, -1)
    broken = target.isnan()
    assert broken.any(1).tolist() == [b == 2 for b in range(TINY.B)]
    assert set(target[broken].view(torch.int32).tolist()) == {0x7FC00000}


@pytest.mark.parametrize("device", DEVICES)
def test_the_largest_of_nan_is_nan(device):
    q = torch.tensor([[1.0, float("nan"), 3.0]], device=device)
    assert targets.dueling_target(q, *one_row(0.0, 0, device), isv_of(1.0, device)).isnan().all()
