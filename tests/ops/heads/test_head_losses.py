"""Losses: each gradient is that of the mean of weighted rows, and what is masked is +0."""

from __future__ import annotations

import pytest
import torch
from bits import DEVICES, assert_bit_equal, assert_close, bits
from ops.heads.head_cases import LOSSES, SMALL, TINY, arguments, operator

from foxflow.ops import losses
from foxflow.reference import heads as reference

ACTION_AT = {"c51_loss": 2, "pi_loss": 1, "iqn_loss": 3, "dueling_loss": 2}
WEIGHTED = {"c51_loss", "iqn_loss", "dueling_loss"}


def mean_loss(name: str, args: tuple) -> torch.Tensor:
    """The mean of weighted rows, of the operator's own row losses."""
    row_loss, _ = operator(name)(*args)
    weight = args[-1] if name in WEIGHTED else torch.ones_like(row_loss)
    rows = len(row_loss) if name != "outcome_loss" else max(int((args[1] != -1).sum()), 1)
    return (row_loss * weight).sum() / rows


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_autograd_of_the_reference_in_float64(name, device):
    args = arguments(TINY, device, torch.float64)[name]
    for got, want in zip(operator(name)(*args), getattr(reference, name)(*args), strict=True):
        assert_close(got, want, rtol=1e-13)
    assert_bit_equal(operator(name)(*args)[1], operator(name)(*args)[1])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_finite_differences_of_the_loss(name, device):
    x, *rest = arguments(SMALL, device, torch.float64)[name]
    _, grad = operator(name)(x, *rest)
    step, wanted = 1e-6, torch.zeros_like(x)
    for at in range(x.numel()):
        up, down = x.clone(), x.clone()
        up.view(-1)[at] += step
        down.view(-1)[at] -= step
        wanted.view(-1)[at] = (mean_loss(name, (up, *rest)) - mean_loss(name, (down, *rest))) / (2 * step)
    assert_close(grad, wanted, rtol=1e-8)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["c51_loss", "iqn_loss", "dueling_loss"])
def test_actions_not_taken_get_plus_zero(name, device):
    args = arguments(TINY, device)[name]
    _, grad = operator(name)(*args)
    by_action = grad.movedim(2 if name == "iqn_loss" else 1, 1).reshape(TINY.B, TINY.A, -1).cpu()
    taken = torch.nn.functional.one_hot(args[ACTION_AT[name]].long(), TINY.A).bool().cpu()
    assert not bits(by_action[~taken]).any()
    assert (by_action[taken] != 0).any(1).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", sorted(ACTION_AT))
@pytest.mark.parametrize("action", [-1, TINY.A])
def test_an_action_out_of_range_makes_its_row_nan_and_no_other(name, action, device):
    args = list(arguments(TINY, device)[name])
    good = operator(name)(*args)
    args[ACTION_AT[name]] = args[ACTION_AT[name]].clone()
    args[ACTION_AT[name]][5] = action
    others = torch.arange(TINY.B, device=device) != 5
    for got, want in zip(operator(name)(*args), good, strict=True):
        assert set(got[5].cpu().view(torch.int32).reshape(-1).tolist()) == {0x7FC00000}
        assert_bit_equal(got[others], want[others])


@pytest.mark.parametrize("device", DEVICES)
def test_unlabelled_outcomes_are_plus_zero_and_not_counted(device):
    logits, label = (
        torch.randn(4, 3, device=device) * 50,
        torch.tensor([-1, 2, -1, 0], dtype=torch.int32, device=device),
    )
    row_loss, grad = losses.outcome_loss(logits, label)
    assert not bits(row_loss[::2]).any()
    assert not bits(grad[::2]).any()
    alone = losses.outcome_loss(logits[1::2], label[1::2])
    assert_bit_equal(row_loss[1::2], alone[0])
    assert_bit_equal(grad[1::2], alone[1])


@pytest.mark.parametrize("device", DEVICES)
def test_no_labelled_outcome_at_all_is_plus_zero_everywhere(device):
    nothing = losses.outcome_loss(
        torch.full((5, 3), -1e30, device=device), torch.full((5,), -1, dtype=torch.int32, device=device)
    )
    assert not bits(nothing[0]).any()
    assert not bits(nothing[1]).any()


@pytest.mark.parametrize("device", DEVICES)
def test_a_skipped_horizon_is_plus_zero_and_still_divides(device):
    logits = arguments(TINY, device)["frd_loss"][0][:2, :, :5]
    label = torch.tensor([[1, -1, 4], [-1, -1, -1]], dtype=torch.int32, device=device)
    row_loss, grad = losses.frd_loss(logits, label)
    assert not bits(grad[0, 1]).any()
    assert not bits(grad[1]).any()
    assert not bits(row_loss[1]).any()
    both = -torch.log_softmax(logits[0].double(), 1)
    assert abs(float(row_loss[0]) - float(both[0, 1] + both[2, 4]) / 3) < 1e-6


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bad", [-2, 3])
def test_a_label_out_of_range_is_nan_in_its_row(bad, device):
    label = torch.tensor([0, bad], dtype=torch.int32, device=device)
    row_loss, grad = losses.outcome_loss(torch.zeros(2, 3, device=device), label)
    assert row_loss.isnan().tolist() == [False, True]
    assert grad.isnan().all(1).tolist() == [False, True]
    row_loss, grad = losses.frd_loss(torch.zeros(2, 1, 3, device=device), label[:, None])
    assert row_loss.isnan().tolist() == [False, True]
    assert grad.isnan().all(2)[:, 0].tolist() == [False, True]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("move", "advantage", "live"), [(0.5, 1, False), (0.5, -1, True), (-0.5, 1, True), (-0.5, -1, False)]
)
def test_the_policy_is_pushed_only_where_the_clip_leaves_it(move, advantage, live, device):
    """Past the clip on the gaining side the gradient is that of the entropy alone."""
    logits, isv = arguments(TINY, device)["pi_loss"][0][:1, :4], torch.zeros(16, device=device)
    action = torch.tensor([2], dtype=torch.int32, device=device)
    log_pi_old = torch.log_softmax(logits, 1)[:, 2] - move
    _, grad = losses.pi_loss(logits, action, log_pi_old, torch.tensor([float(advantage)], device=device), isv)
    assert bool((grad != 0).all()) is live
    isv[1] = 0.01
    _, with_entropy = losses.pi_loss(logits, action, log_pi_old, torch.tensor([float(advantage)], device=device), isv)
    assert bool((with_entropy != 0).any())


@pytest.mark.parametrize("device", DEVICES)
def test_a_ratio_that_is_nan_shows_in_loss_and_gradient(device):
    logits, action, log_pi_old, advantage, isv = arguments(TINY, device)["pi_loss"]
    log_pi_old[3] = float("nan")
    row_loss, grad = losses.pi_loss(logits, action, log_pi_old, advantage, isv)
    assert row_loss.isnan().tolist() == [b == 3 for b in range(TINY.B)]
    assert grad.isnan().all(1).tolist() == [b == 3 for b in range(TINY.B)]


@pytest.mark.parametrize("device", DEVICES)
def test_huber_is_quadratic_up_to_one_and_linear_beyond(device):
    error = torch.tensor([0.0, 0.5, 1.0, -1.0, 1.5, -3.0], device=device)
    zeros, ones = torch.zeros(6, device=device), torch.ones(6, device=device)
    row_loss, grad = losses.dueling_loss(error[:, None], zeros, zeros.int(), ones)
    assert row_loss.tolist() == [0.0, 0.125, 0.5, 0.5, 1.0, 2.5]
    assert_bit_equal(grad[:, 0], error.clamp(-1, 1) / 6)


@pytest.mark.parametrize("device", DEVICES)
def test_the_value_loss_rounds_in_the_stated_order(device):
    v, target = arguments(TINY, device)["v_loss"]
    row_loss, grad = losses.v_loss(v, target)
    error = v[:, 0] - target
    assert_bit_equal(row_loss, 0.5 * error * error)
    assert_bit_equal(grad[:, 0], error / TINY.B)


@pytest.mark.parametrize("device", DEVICES)
def test_rows_are_not_weighted_but_gradients_are(device):
    *rest, weight = arguments(TINY, device)["c51_loss"]
    once, twice = losses.c51_loss(*rest, weight), losses.c51_loss(*rest, weight * 2)
    assert_bit_equal(once[0], twice[0])
    assert_bit_equal(once[1] * 2, twice[1])
