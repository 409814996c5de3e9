"""Draws from the sum tree and their weights, against a running sum in float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from bits import DEVICES, assert_close, sha
from ops.rings import SIZES, ring, scalar, settings, states

from foxflow.ops import replay
from foxflow.reference import replay as reference


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("slots", "batch"), SIZES)
def test_draws_of_whole_leaves_are_those_of_a_running_sum(device, slots, batch):
    """Integer leaves sum exactly in float32, so the tree has no rounding to differ by."""
    rng = np.random.default_rng(slots)
    leaf = torch.from_numpy(rng.integers(0, 9, slots).astype(np.float32))
    leaf[slots // 2] = 3.0
    prng, tree = states(batch, seed=slots), torch.zeros(slots)
    on = [x.to(device) for x in (leaf, tree, prng)]
    replay.per_rebuild(on[0], on[1])
    idx, weight = replay.per_sample(*on, settings(0.7, device), scalar(slots, device, torch.int64))
    slots_wanted, weights = reference.sample(leaf.numpy(), [int(x) for x in prng.numpy()], 0.7, slots)
    agree = np.array(idx.tolist()) == np.array(slots_wanted)
    assert agree.mean() > 0.99, "only u's own rounding may move a draw to a neighbour"
    same = torch.from_numpy(agree)
    assert_close(weight.cpu()[same], torch.from_numpy(weights)[same], rtol=2e-6)
    assert float(weight.max()) == 1.0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("slots", "batch"), SIZES)
def test_draws_lie_where_the_running_sum_says(device, slots, batch):
    leaf, tree = ring(slots, device)
    prng = states(batch, device, seed=3)
    idx, weight = replay.per_sample(leaf, tree, prng, settings(device=device), scalar(slots, device, torch.int64))
    sums = np.concatenate([[0.0], np.cumsum(leaf.cpu().double().numpy())])
    u = np.array([(b + reference.uniform(int(s))) / batch for b, s in enumerate(prng.cpu().numpy())]) * sums[-1]
    at, slack = idx.cpu().numpy(), 1e-5 * sums[-1]
    assert bool(((sums[at] - slack <= u) & (u <= sums[at + 1] + slack)).all())
    assert bool((leaf[idx.long()] > 0).all()), "an empty slot is never drawn"
    raw = (slots * leaf.cpu().double()[at] / sums[-1]) ** -0.4
    assert_close(weight, raw / raw.max(), rtol=2e-6)


def test_draws_follow_the_leaves():
    leaf = torch.tensor([1.0, 0.0, 6.0, 3.0])
    tree = torch.zeros(4)
    replay.per_rebuild(leaf, tree)
    idx, _ = replay.per_sample(leaf, tree, states(20000), settings(), scalar(4, dtype=torch.int64))
    share = torch.bincount(idx.long(), minlength=4) / 20000
    assert share.tolist() == pytest.approx([0.1, 0.0, 0.6, 0.3], abs=1e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_the_last_stratum_never_falls_past_the_last_filled_slot(device):
    """The largest xi rounds u up to the root itself; an all-zero right side must not catch it."""
    top = next(s for s in itertools.count(1) if reference.uniform(s) > 1 - 2**-14)
    leaf, tree = ring(64, device)
    prng = torch.full((512,), top, dtype=torch.int64).to(torch.uint32).to(device)
    idx, _ = replay.per_sample(leaf, tree, prng, settings(device=device), scalar(48, device, torch.int64))
    assert int(idx[-1]) == 47


@pytest.mark.parametrize("device", DEVICES)
def test_drawing_does_not_advance_the_state(device):
    leaf, tree = ring(64, device)
    prng = states(8, device)
    before = sha(prng)
    replay.per_sample(leaf, tree, prng, settings(device=device), scalar(48, device, torch.int64))
    assert sha(prng) == before
