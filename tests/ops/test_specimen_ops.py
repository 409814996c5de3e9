"""Each specimen really races: launches on equal inputs give several results, each of them what its race allows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from bits import DEVICES, assert_bit_equal, assert_close, bits, sha
from ops.rings import ring, states
from torch import Tensor

from foxflow.errors import Mistake
from foxflow.ops import iqn, linalg, policy, replay
from foxflow.ops import specimens as racy

LAUNCHES = 50
B, Q, E, ADVANCE = 128, 32, 64, 8
OFFSETS = [0, 160_000, 185_000, 200_000]


def results(launch: Callable[[], tuple[Tensor, ...]]) -> set[str]:
    """The distinct results of many launches; stops at the second one."""
    seen: set[str] = set()
    for _ in range(LAUNCHES):
        seen.add(sha(*launch()))
        if len(seen) > 1:
            break
    return seen


def normal(*shape: int, device: str = "cpu") -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(device)


@pytest.mark.parametrize("device", DEVICES)
def test_racing_quantiles_differ_from_launch_to_launch(device: str) -> None:
    state = states(B, device)
    assert len(results(lambda: racy.iqn_race(state.clone(), Q, E, ADVANCE))) > 1


@pytest.mark.parametrize("device", DEVICES)
def test_racing_quantiles_leave_the_state_as_the_fixed_kernel_does(device: str) -> None:
    """So the bug hides: what follows starts from the right state."""
    want = states(B, device)
    policy.prng_advance(want, ADVANCE)
    for _ in range(10):
        state = states(B, device)
        racy.iqn_race(state, Q, E, ADVANCE)
        assert_bit_equal(state.cpu(), want.cpu())


@pytest.mark.parametrize("device", DEVICES)
def test_a_racing_quantile_comes_from_the_old_state_or_from_the_new_one(device: str) -> None:
    state = states(B, device)
    old = iqn.iqn_tau_cos(state, Q, E)
    got = racy.iqn_race(state, Q, E, ADVANCE)
    new = iqn.iqn_tau_cos(state, Q, E)
    for mine, early, late in zip(got, old, new, strict=True):
        assert bool(((mine == early) | (mine == late)).all())
    assert_bit_equal(got[0][:, 0].cpu(), old[0][:, 0].cpu())


@pytest.mark.parametrize("device", DEVICES)
def test_a_rebuild_with_fences_adds_sums_of_the_last_rebuild(device: str) -> None:
    leaf, right = ring(16384, device)
    before = leaf.clone()

    def launch() -> Tensor:
        tree = torch.full_like(leaf, 7.0)
        racy.per_fence(leaf, tree)
        return tree

    trees = [launch() for _ in range(LAUNCHES)]
    assert any(not torch.equal(bits(tree), bits(right)) for tree in trees)
    assert_bit_equal(leaf.cpu(), before.cpu())
    assert all(float(tree[0]) == 0 and bool(torch.isfinite(tree).all()) for tree in trees)


@pytest.mark.parametrize("device", DEVICES)
def test_a_sound_rebuild_does_not(device: str) -> None:
    leaf, right = ring(16384, device)
    for _ in range(10):
        tree = torch.full_like(leaf, 7.0)
        replay.per_rebuild(leaf, tree)
        assert_bit_equal(tree.cpu(), right.cpu())


@pytest.mark.parametrize("device", DEVICES)
def test_a_split_product_differs_from_launch_to_launch_and_by_rounding_alone(device: str) -> None:
    a, b = normal(2048, 56, device=device), normal(2048, 128, device=device)
    want = linalg.matmul_rows(a, b, 2048)
    assert_close(racy.splitk_gemm(a, b, 8), want, rtol=2e-5)
    assert len(results(lambda: (racy.splitk_gemm(a, b, 8),))) > 1


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", [1, 7, 9])
def test_a_split_product_of_few_rows_leaves_none_out(device: str, rows: int) -> None:
    a, b = torch.ones(rows, 3, device=device), torch.ones(rows, 2, device=device)
    assert_bit_equal(racy.splitk_gemm(a, b, 8).cpu(), torch.full((1, 3, 2), float(rows)))


@pytest.mark.gpu
def test_a_sum_without_a_barrier_loses_what_slow_warps_add() -> None:
    a = normal(128, 16384, device="cuda").abs() + 1
    assert len(results(lambda: (racy.missing_sync(a),))) > 1
    assert bool(torch.isfinite(racy.missing_sync(a)).all())


@pytest.mark.gpu
def test_a_sum_by_atomics_differs_from_launch_to_launch_and_by_rounding_alone() -> None:
    a = normal(4096, 500, device="cuda")
    want = linalg.sum_rows(a.double(), 4096)
    assert float((racy.float_atomics(a) - want).abs().max()) < 1e-3
    assert len(results(lambda: (racy.float_atomics(a),))) > 1


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [0, 1, 31, 33])
def test_a_sum_by_atomics_of_few_rows_leaves_none_out(rows: int) -> None:
    assert_bit_equal(racy.float_atomics(torch.ones(rows, 3, device="cuda")).cpu(), torch.full((1, 3), float(rows)))


@pytest.mark.gpu
def test_roots_on_a_stream_of_their_own_read_unfinished_sums() -> None:
    """What they read too early are the sums of the call before, so the calls must not be alike."""
    x = normal(OFFSETS[-1], device="cuda")

    def launch() -> tuple[Tensor, ...]:
        racy.wrong_stream(2 * x, OFFSETS)
        return (racy.wrong_stream(x, OFFSETS),)

    assert len(results(launch)) > 1


@pytest.mark.gpu
def test_a_buffer_refilled_during_its_upload_sends_up_what_is_not_its_turn() -> None:
    rows = normal(128, 17, 56)

    def launch() -> tuple[Tensor, ...]:
        slots = torch.zeros(256, 17, 56, device="cuda")
        racy.stale_pinned(slots, 64, rows)
        assert not slots[:64].any()
        assert not slots[192:].any()
        assert_bit_equal(slots[160:192].cpu(), rows[96:])
        return (slots,)

    assert len(results(launch)) > 1


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: racy.iqn_race(torch.zeros(2, 2, dtype=torch.uint32), 1, 1, 1), "prng_B must be 1-D"),
    (lambda: racy.iqn_race(states(4)[::2], 1, 1, 1), "prng_B must be contiguous"),
    (lambda: racy.iqn_race(states(4), 0, 1, 1), "quantiles must be at least 1"),
    (lambda: racy.per_fence(torch.zeros(4), torch.zeros(8)), "tree_C must have 4 on axis 0"),
    (lambda: racy.splitk_gemm(torch.zeros(4, 2), torch.zeros(3, 2), 8), "b_RN must have 4 on axis 0"),
    (lambda: racy.splitk_gemm(torch.zeros(4, 2), torch.zeros(4, 2), 0), "parts must be at least 1"),
    (lambda: racy.missing_sync(torch.zeros(4, 2)), "a_RN must be on a GPU, for a CPU has no warps"),
    (lambda: racy.float_atomics(torch.zeros(4, 2)), "a_RN must be on a GPU, for parts are blocks of a GPU"),
    (lambda: racy.wrong_stream(torch.zeros(4), [0, 4]), "x_W must be on a GPU, for a CPU has no streams"),
    (lambda: racy.stale_pinned(torch.zeros(4, 2), 0, torch.zeros(2, 2)), "ring_CX must be on a GPU"),
]


@pytest.mark.parametrize(("call", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_mistake_is_named(call: Callable[[], object], said: str) -> None:
    with pytest.raises(Mistake, match=said):
        call()
