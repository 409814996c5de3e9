"""Prioritised replay: leaves and tree against plain loops, the same bits anywhere, mistakes named."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from bits import DEVICES, assert_bit_equal, assert_close, clock, fresh_process, sha
from ops.rings import SIZES, ring, scalar, settings, states

from foxflow.errors import Mistake
from foxflow.ops import replay
from foxflow.reference import replay as reference

OPS = torch.ops.foxflow


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("slots", [2, 4, 64, 2048, 16384, 131072])
def test_every_node_is_the_sum_of_its_children(device, slots):
    leaf, tree = ring(slots, device)
    want = torch.from_numpy(reference.tree(leaf.cpu().numpy()))
    assert_bit_equal(tree.cpu(), want)
    nodes = torch.cat([tree, leaf]).cpu()
    inner = torch.arange(1, slots)
    assert_bit_equal(nodes[inner], nodes[2 * inner] + nodes[2 * inner + 1])
    assert_bit_equal(tree[:1].cpu(), torch.zeros(1))


@pytest.mark.parametrize("device", DEVICES)
def test_a_rebuild_shows_one_changed_leaf_in_every_ancestor(device):
    leaf, tree = ring(64, device)
    changed, after = leaf.clone(), tree.clone()
    changed[5] += 1
    replay.per_rebuild(changed, after)
    differing = (after != tree).nonzero().flatten().tolist()
    assert differing == [1, 2, 4, 8, 17, 34]


@pytest.mark.parametrize("device", DEVICES)
def test_new_slots_get_the_largest_priority(device):
    leaf = torch.full((64,), 9.0, device=device)
    replay.per_insert(leaf, clock(10, device), 8, scalar(2.5, device))
    assert_close(leaf[16:24], torch.full((8,), reference.leaf_of(2.5)), rtol=3e-7)
    assert_bit_equal(leaf[:16].cpu(), torch.full((16,), 9.0))
    assert_bit_equal(leaf[24:].cpu(), torch.full((40,), 9.0))
    replay.per_insert(leaf, clock(3, device), 64, scalar(1.0, device))
    assert_bit_equal(leaf.cpu(), torch.ones(64))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("slots", "batch"), SIZES)
def test_drawn_slots_take_their_loss_and_the_lowest_row_writes(device, slots, batch):
    rng = np.random.default_rng(batch)
    leaf, _ = ring(slots, device)
    idx, loss = rng.integers(0, max(slots // 4, 1), batch), rng.gamma(1.0, 2.0, batch).astype(np.float32)
    want, largest = reference.update(leaf.cpu().numpy(), 1.0, idx.tolist(), loss.tolist())
    prio = scalar(1.0, device)
    replay.per_update(leaf, prio, torch.from_numpy(idx.astype(np.int32)).to(device), torch.from_numpy(loss).to(device))
    error = (leaf.cpu().double() - torch.from_numpy(want)).abs() / torch.from_numpy(want).clamp_min(1e-30)
    assert float(error.max()) < 1e-6
    assert float(prio) == pytest.approx(largest, rel=1e-7)


@pytest.mark.parametrize("device", DEVICES)
def test_of_rows_with_one_slot_the_lowest_writes_but_the_largest_priority_counts(device):
    leaf, prio = torch.ones(8, device=device), scalar(1.0, device)
    idx = torch.tensor([3, 5, 3, 5], dtype=torch.int32, device=device)
    replay.per_update(leaf, prio, idx, torch.tensor([0.5, 2.0, 7.0, 0.0], device=device))
    alone = torch.ones(8, device=device)
    replay.per_update(alone, scalar(1.0, device), idx[:2].clone(), torch.tensor([0.5, 2.0], device=device))
    assert_bit_equal(leaf, alone)
    assert float(prio) == pytest.approx(7.000001)
    replay.per_update(leaf, prio, idx, torch.zeros(4, device=device))
    assert float(prio) == pytest.approx(7.000001), "it never comes down"
    assert_close(leaf[3], scalar(1e-6**0.6), rtol=3e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_a_nan_loss_is_one_nan_in_leaf_and_tree_and_not_in_the_largest(device):
    leaf, prio = torch.ones(8, device=device), scalar(1.0, device)
    loss = torch.tensor([-float("nan")], device=device)
    replay.per_update(leaf, prio, torch.tensor([2], dtype=torch.int32, device=device), loss)
    tree = torch.zeros(8, device=device)
    replay.per_rebuild(leaf, tree)
    words = [int(x.cpu().view(torch.int32)) for x in (leaf[2], tree[5], tree[2], tree[1])]
    assert words == [0x7FC00000] * 4
    assert float(prio) == 1.0
    idx, weight = replay.per_sample(
        leaf, tree, states(4, device), settings(device=device), scalar(8, device, torch.int64)
    )
    assert bool(((idx >= 0) & (idx < 8)).all())
    assert set(weight.cpu().view(torch.int32).tolist()) == {0x7FC00000}


def everything(device: str = "cpu") -> str:
    """One digest of all operators over a ring large enough to be split among threads."""
    leaf, tree = ring(32768, device)
    prng, prio, kept = states(2048, device), scalar(1.0, device), []
    for step in range(3):
        replay.per_insert(leaf, clock(step, device), 8192, prio)
        replay.per_rebuild(leaf, tree)
        idx, weight = replay.per_sample(leaf, tree, prng, settings(0.6, device), scalar(30000, device, torch.int64))
        kept += [leaf.clone(), tree.clone(), idx, weight]
        replay.per_update(leaf, prio, idx, weight * 3)
    outcome = torch.zeros(32768, dtype=torch.int32, device=device)
    flags = torch.arange(2048, device=device)
    replay.assign_labels(outcome, clock(20, device), (flags % 2).byte(), flags - 1000, (flags % 20).int())
    return sha(*kept, leaf, prio, outcome)


@pytest.mark.parametrize("device", DEVICES)
def test_every_run_gives_the_cpus_bits(device):
    assert {everything(device) for _ in range(5)} == {everything()}


def test_threads_instruction_sets_and_fresh_processes_do_not_change_a_bit():
    code = (
        "import os; os.environ['FOXFLOW_SIMD'] = {!r}\n"
        "import torch; torch.set_num_threads({}); from ops.test_replay import everything; print(everything())"
    )
    here = {everything() for _ in range(3)}
    assert here == {fresh_process(code.format("plain", 1)), fresh_process(code.format("avx2", 2))}


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck(device):
    leaf, tree = ring(64, device)
    flags, length = torch.arange(8, device=device), scalar(48, device, torch.int64)
    outcome, loss = torch.zeros(64, dtype=torch.int32, device=device), torch.rand(8, device=device)
    for op, args in (
        (OPS.per_insert, (leaf, clock(1, device), 8, scalar(1.0, device))),
        (OPS.per_update, (leaf, scalar(1.0, device), flags.int(), loss)),
        (OPS.per_rebuild, (leaf, tree)),
        (OPS.per_sample, (leaf, tree, states(8, device), settings(device=device), length)),
        (OPS.assign_labels, (outcome, clock(3, device), (flags % 2).byte(), flags - 4, (flags % 3).int())),
    ):
        torch.library.opcheck(op.default, args)


@pytest.mark.parametrize("device", DEVICES)
def test_the_kernels_write_no_slot_outside_the_ring(device):
    leaf = torch.ones(8, device=device)
    idx = torch.tensor([-1, 8, 2**30], dtype=torch.int32, device=device)
    OPS.per_update(leaf, scalar(1.0, device), idx, torch.full((3,), 5.0, device=device))
    assert_bit_equal(leaf.cpu(), torch.ones(8))


def test_what_does_not_fit_is_named():
    leaf, tree = ring(64)
    one = scalar(1.0)
    with pytest.raises(Mistake, match="leaf_C must have a power of two of slots, 2 or more, got 48"):
        replay.per_rebuild(leaf[:48], tree)
    with pytest.raises(Mistake, match="leaf_C must be contiguous"):
        replay.per_rebuild(leaf[::2], tree)
    with pytest.raises(Mistake, match=r"tree_C must have 64 on axis 0 \(leaf_C's slots\), got 32"):
        replay.per_rebuild(leaf, tree[:32])
    with pytest.raises(Mistake, match="leaf_C must have a multiple of 12 slots, got 64"):
        replay.per_insert(leaf, clock(0), 12, one)
    with pytest.raises(Mistake, match=r"step must be in \[0, 2147483648\), got -1"):
        replay.per_insert(leaf, clock(-1), 8, one)
    with pytest.raises(Mistake, match="step must be int64, got"):
        replay.per_insert(leaf, one, 8, one)
    with pytest.raises(Mistake, match="idx_B must lie in 0 to 63, got 64"):
        replay.per_update(leaf, one, torch.tensor([64], dtype=torch.int32), torch.zeros(1))
    with pytest.raises(Mistake, match=r"prng_B must be uint32"):
        replay.per_sample(leaf, tree, torch.ones(8, dtype=torch.int32), settings(), scalar(8, dtype=torch.int64))
    with pytest.raises(Mistake, match="isv must have 16 on axis 0"):
        replay.per_sample(leaf, tree, states(8), torch.zeros(4), scalar(8, dtype=torch.int64))
