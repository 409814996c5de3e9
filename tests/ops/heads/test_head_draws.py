"""Draws: xorshift32 and Murmur3 as published, cosines over every angle, actions from the policy."""

from __future__ import annotations

import math

import pytest
import torch
from bits import DEVICES, assert_bit_equal
from ops.heads.head_cases import DEFAULT, arguments

from foxflow.ops import iqn, policy
from foxflow.reference import heads as reference

WORD = 0xFFFFFFFF


def words(*values: int, device: str = "cpu") -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64).to(torch.uint32).to(device)


def fmix32(x: int) -> int:
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        x = (x ^ x >> shift) * factor & WORD
    return x


@pytest.mark.parametrize("device", DEVICES)
def test_the_state_advances_as_marsaglia_published(device):
    """The first xorshift32 outputs from 1 and from his example's seed 2463534242."""
    state = words(1, 2463534242, WORD, device=device)
    policy.prng_advance(state, 1)
    assert state.tolist()[:2] == [270369, 723471715]
    policy.prng_advance(state, 0)
    assert state.tolist()[:2] == [270369, 723471715]
    policy.prng_advance(state, 3)
    assert state.tolist()[0] == 307599695
    again = words(1, 2463534242, WORD, device=device)
    policy.prng_advance(again, 4)
    assert_bit_equal(state, again)


@pytest.mark.parametrize("device", DEVICES)
def test_every_environment_advances_alone_past_one_block(device):
    state = torch.arange(1, 1001).to(torch.uint32).to(device)
    wanted = reference.prng_advance(state.cpu(), 8)
    policy.prng_advance(state, 8)
    assert_bit_equal(state.cpu(), wanted)


@pytest.mark.parametrize("device", DEVICES)
def test_quantiles_are_the_published_finaliser_and_exact(device):
    seeds = [1, 2463534242, WORD]
    tau, _ = iqn.iqn_tau_cos(words(*seeds, device=device), 32, 1)
    exact = [[(2 * (fmix32(s + 0x9E3779B9 * (i + 1) & WORD) >> 9) + 1) * 2.0**-24 for i in range(32)] for s in seeds]
    assert fmix32(1) == 0x514E28B7
    assert tau.double().tolist() == exact


def seed_of(word: int) -> int:
    """The state whose first quantile is made of `word`: the finaliser backwards."""
    word ^= word >> 16
    word = word * pow(0xC2B2AE35, -1, 2**32) & WORD
    word ^= word >> 13 ^ word >> 26
    word = word * pow(0x85EBCA6B, -1, 2**32) & WORD
    word ^= word >> 16
    return word - 0x9E3779B9 & WORD


@pytest.mark.parametrize("device", DEVICES)
def test_the_ends_of_the_draw_stay_inside_zero_and_one(device):
    tau, _ = iqn.iqn_tau_cos(words(seed_of(0), seed_of(WORD), device=device), 1, 1)
    assert tau.flatten().tolist() == [2.0**-24, 1 - 2.0**-24]


@pytest.mark.parametrize("device", DEVICES)
def test_cosines_are_within_two_ulp_at_every_angle(device):
    """tau = 2^-24 meets each of the 2^25 angles once; float64 cosine of an exactly reduced angle judges them."""
    steps = 2**25
    _, cos = iqn.iqn_tau_cos(words(seed_of(0), device=device), 1, steps)
    cos = cos.view(-1).cpu()
    for begin in range(0, steps, 2**22):
        e = torch.arange(begin, begin + 2**22, dtype=torch.float64)
        wanted = torch.cos((2 * math.pi / steps) * e)
        wanted[wanted.abs() < 1e-12] = 0.0
        apart = cos[begin : begin + 2**22].view(torch.int32) - wanted.float().view(torch.int32)
        assert int(apart.abs().max()) <= 1, "one float32 from the nearest is 1.5 ulp at most"
    quarters = torch.tensor([1.0, 0.0, -1.0, 0.0])
    assert_bit_equal(cos[:: steps // 4].contiguous(), quarters)


@pytest.mark.parametrize("device", DEVICES)
def test_a_draw_takes_the_first_action_whose_cumulative_probability_passes_it(device):
    """Two equal actions: below one half the first, from one half on the second."""
    prng = arguments(DEFAULT, device)["sample_action"][1]
    u = reference.unit(reference.xorshift32(prng.long()))
    action, log_pi = policy.sample_action(torch.zeros(DEFAULT.B, 2, device=device), prng)
    assert torch.equal(action.cpu(), (u >= 0.5).int().cpu())
    assert set(action.tolist()) == {0, 1}
    assert float((log_pi.cpu().double() - math.log(0.5)).abs().max()) < 1e-7


def state_of(word: int) -> int:
    """The state whose next xorshift32 output is `word`: each of the three linear steps backwards."""
    for shift in (5, -17, 13):
        x = word
        for _ in range(32 // abs(shift) + 1):
            x = word ^ ((x << shift) & WORD if shift > 0 else x >> -shift)
        word = x
    return word


@pytest.mark.parametrize("device", DEVICES)
def test_a_rounding_gap_goes_to_the_last_action(device):
    """Some 1/n, rounded and added n times, end below 1 - 2^-24, the largest draw."""
    prng = words(state_of(WORD), device=device)
    assert int(reference.xorshift32(prng.long())) == WORD
    for actions in range(2, 64):
        share = torch.full((), 1 / actions)
        total = torch.zeros(())
        for _ in range(actions):
            total = total + share
        action, _ = policy.sample_action(torch.zeros(1, actions, device=device), prng)
        assert action.item() == actions - 1
        if float(total) < 1 - 2.0**-24:
            break
    else:
        pytest.fail("no number of actions leaves a gap")


@pytest.mark.parametrize("device", DEVICES)
def test_the_smallest_draw_skips_actions_of_no_probability(device):
    """The smallest draw is 2^-24, above +0: an action with probability 0 is never taken but as the last."""
    logits = torch.tensor([[-200.0, -200.0, 0.0, 0.0]], device=device)
    action, log_pi = policy.sample_action(logits, words(state_of(1), device=device))
    assert action.item() == 2
    assert abs(log_pi.item() - math.log(0.5)) < 1e-7


@pytest.mark.parametrize("device", DEVICES)
def test_drawing_leaves_the_state_alone(device):
    logits, prng = arguments(DEFAULT, device)["sample_action"]
    before = prng.clone()
    first, second = policy.sample_action(logits, prng), policy.sample_action(logits, prng)
    iqn.iqn_tau_cos(prng, 4, 4)
    assert_bit_equal(prng, before)
    assert_bit_equal(first[0], second[0])
    policy.prng_advance(prng, 1)
    assert not torch.equal(policy.sample_action(logits, prng)[0], first[0])


@pytest.mark.parametrize("device", DEVICES)
def test_draws_follow_the_policy(device):
    """Chi-squared of 65,536 draws against four probabilities, 3 degrees of freedom: below 16.3 but once in 1000."""
    n = 65536
    prng = torch.arange(1, n + 1).to(torch.uint32).to(device)
    policy.prng_advance(prng, 8)
    logits = torch.tensor([0.5, -1.0, 0.0, 1.0], device=device)
    action, _ = policy.sample_action(logits.expand(n, 4), prng)
    wanted = torch.softmax(logits.double(), 0).cpu() * n
    assert float(((torch.bincount(action.cpu(), minlength=4) - wanted) ** 2 / wanted).sum()) < 16.3


@pytest.mark.parametrize("device", DEVICES)
def test_the_greedy_action_is_the_lowest_of_equals_and_the_first_nan(device):
    nan = float("nan")
    logits = [[1.0, 2.0, 2.0, 0.0], [0.0, -0.0, 0.0, -0.0], [1.0, nan, 9.0, nan], [-3.0, -2.0, -1.0, 0.0]]
    assert policy.greedy_action(torch.tensor(logits, device=device)).tolist() == [1, 0, 1, 3]


@pytest.mark.parametrize("device", DEVICES)
def test_a_policy_that_is_nan_gives_one_nan_and_an_action_in_range(device):
    minus_nan = torch.tensor([-4194303], dtype=torch.int32).view(torch.float32)
    logits = minus_nan.expand(1, 3).contiguous().to(device)
    action, log_pi = policy.sample_action(logits, words(1, device=device))
    assert action.item() == 2
    assert log_pi.cpu().view(torch.int32).item() == 0x7FC00000
