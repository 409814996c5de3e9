"""The encoder's operators: right, differentiable, and one order of addition everywhere."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from bits import DEVICES, assert_bit_equal, assert_close, fresh_process
from ops.encoder_inputs import (
    BACKWARD,
    DEFAULT,
    EXACT,
    FLOWS,
    FORWARD,
    RAGGED,
    ROWED,
    TINY,
    arguments,
    backward,
    everything,
    upstream,
)
from torch import Tensor

from foxflow.errors import Mistake
from foxflow.ops import encoder, linalg, recurrence
from foxflow.reference import encoder as reference

on_each_device = pytest.mark.parametrize("device", DEVICES)
of_each_op = pytest.mark.parametrize("name", FORWARD)
at_each_shape = pytest.mark.parametrize("shape", [DEFAULT, TINY, RAGGED], ids=["default", "tiny", "ragged"])


def gradients(call, inputs, name: str) -> tuple[Tensor, ...]:
    """Autograd of the result that carries gradients, by every float input but the cell's h_prev and dt."""
    leaves = [x.detach().clone().requires_grad_() if isinstance(x, Tensor) else x for x in inputs]
    results = call(*leaves)
    wanted = [x for i, x in enumerate(leaves) if isinstance(x, Tensor) and (name, i) not in {("cfc", 3), ("cfc", 4)}]
    return torch.autograd.grad(results[FLOWS[name]], wanted, upstream(name, results))


@on_each_device
@at_each_shape
@of_each_op
def test_results_agree_with_float64(name, shape, device):
    inputs = arguments(name, shape, device)
    for got, want in zip(FORWARD[name](*inputs), getattr(reference, name)(*inputs), strict=True):
        assert_close(got, want, rtol=4e-6)


@on_each_device
@at_each_shape
@of_each_op
def test_hand_written_gradients_agree_with_autograd_of_the_reference(name, shape, device):
    inputs = arguments(name, shape, device)
    got = gradients(FORWARD[name], inputs, name)
    for mine, theirs in zip(got, gradients(getattr(reference, name), inputs, name), strict=True):
        assert_close(mine, theirs, rtol=1e-5)


@on_each_device
@of_each_op
def test_gradcheck(name, device):
    inputs = [
        x.requires_grad_() if isinstance(x, Tensor) and (name, i) not in {("cfc", 3), ("cfc", 4)} else x
        for i, x in enumerate(arguments(name, EXACT, device))
    ]
    flowing = lambda *x: FORWARD[name](*x)[FLOWS[name]]  # noqa: E731
    assert torch.autograd.gradcheck(flowing, inputs, nondet_tol=0.0)


@on_each_device
@of_each_op
def test_opcheck(name, device):
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    ops = torch.ops.foxflow
    torch.library.opcheck(getattr(ops, f"{name}_bwd").default, backward(name, EXACT, device), test_utils=tests)
    inputs = [x.requires_grad_() if isinstance(x, Tensor) else x for x in arguments(name, EXACT, device)]
    if name == "cfc":
        inputs[3:5] = (x.detach() for x in inputs[3:5])
    if name == "mamba":
        inputs.append(True)
    torch.library.opcheck(
        getattr(ops, f"{name}_fwd").default, tuple(inputs), test_utils=(*tests, "test_aot_dispatch_static")
    )


def test_repeats_processes_threads_and_instruction_sets_do_not_change_a_bit():
    code = (
        "import os; os.environ['FOXFLOW_SIMD'] = '{}'\n"
        "import torch; from ops.encoder_inputs import everything\n"
        "torch.set_num_threads({}); print(everything())"
    )
    here = {everything() for _ in range(3)}
    assert here == {fresh_process(code.format(*case)) for case in (("plain", 1), ("avx2", 2))}


@on_each_device
@of_each_op
def test_a_row_does_not_know_its_neighbours(name, device):
    """Rows computed eight at a time and one at a time are bit-equal, so each row of a gradient is that row's own."""
    inputs = backward(name, DEFAULT, device)
    whole, part = (
        BACKWARD[name](*inputs),
        BACKWARD[name](*(x[5:6] if i in ROWED[name] else x for i, x in enumerate(inputs))),
    )
    pairs = [(part, whole)] if isinstance(part, Tensor) else zip(part, whole, strict=True)
    for one, every in pairs:
        assert_bit_equal(one, every[5:6])
        assert not torch.equal(one, every[6:7]), "another row must show"


@on_each_device
def test_logits_of_the_gate_are_the_matrix_product(device):
    """With an identity for w the gate is the softmax of x itself."""
    x, w, b = arguments("vsn", DEFAULT, device)
    flat = x.reshape(-1, DEFAULT.F)
    gate = encoder.vsn_fwd(x, w, b)[0]
    eye, zero = torch.eye(DEFAULT.F, device=device), torch.zeros(DEFAULT.F, device=device)
    of = lambda logits: encoder.vsn_fwd(logits.reshape(x.shape), eye, zero)[0]  # noqa: E731
    assert_bit_equal(gate, of(linalg.matmul(flat, w, b)))
    backwards = linalg.matmul(flat.flip(1), w.flip(0), b)
    assert not torch.equal(gate, of(backwards)), "another order of addition must show"


def fused(chain: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """fmaf(a, b, chain): float64 holds a float32 product exactly."""
    triples = zip(*(x.reshape(-1).tolist() for x in torch.broadcast_tensors(a, b, chain)), strict=True)
    sums = [math.fsum([p * q, c]) for p, q, c in triples]
    return torch.tensor(sums, dtype=torch.float64).float().reshape(torch.broadcast_shapes(a.shape, b.shape))


@on_each_device
def test_the_state_is_read_in_one_ascending_chain(device):
    u, dt_bias, a_log, d, n = arguments("mamba", TINY, device)
    state, y, _ = (x.cpu() for x in recurrence.mamba_fwd(u, dt_bias, a_log, d, n))
    read = u.cpu()[:, :, 2 * TINY.H + n : 2 * TINY.H + 2 * n]
    x = u.cpu()[:, :, TINY.H : 2 * TINY.H].reshape(TINY.B, TINY.T, TINY.heads, TINY.P)

    def chain(order: range) -> Tensor:
        total = torch.zeros_like(x)
        for k in order:
            total = fused(total, read[:, :, None, None, k].expand_as(x), state[:, :, :, k])
        return fused(total, d.cpu()[:, None].expand_as(x), x).reshape(y.shape)

    assert_bit_equal(y, chain(range(n)))
    assert not torch.equal(y, chain(range(n - 1, -1, -1))), "another order must show"


@on_each_device
def test_a_result_that_is_not_a_number_has_one_pattern_and_stays_in_its_row(device):
    for name, call in FORWARD.items():
        inputs = list(arguments(name, TINY, device))
        clean = call(*inputs)
        inputs[0] = inputs[0].clone()
        inputs[0][1] = -torch.tensor(torch.nan)
        for got, want in zip(call(*inputs), clean, strict=True):
            bad = got.isnan()
            assert_bit_equal(
                got[bad].cpu().view(torch.int32), torch.full((int(bad.sum()),), 0x7FC00000, dtype=torch.int32)
            )
            assert_bit_equal(torch.cat([got[:1], got[2:]]), torch.cat([want[:1], want[2:]]))
        assert call(*inputs)[FLOWS[name]][1].isnan().all()


@on_each_device
def test_edges_of_the_formulas(device):
    ties = torch.zeros(1, 1, 4, device=device)
    gate, out = encoder.vsn_fwd(ties + 3, torch.zeros(4, 4, device=device), torch.zeros(4, device=device))
    assert_bit_equal(gate, ties + 0.25)
    assert_bit_equal(out, ties + 3)  # a flat gate is the identity
    even, zero = torch.full((2, 8), 0.5, device=device), torch.zeros(8, device=device)
    _, norm, _ = encoder.layer_norm_fwd(even, even, zero, zero)
    assert_bit_equal(norm, torch.zeros(2, 8, device=device))
    minus = torch.full((1, 1, 8), -0.0, device=device)
    alpha, context = encoder.attention_fwd(minus, zero)
    assert_bit_equal(alpha, torch.ones(1, 1, device=device))
    assert_bit_equal(context, torch.zeros(1, 8, device=device))  # sums start at +0
    still = torch.zeros(1, 8, device=device)
    forever = torch.full((8,), 1e30, device=device)
    _, decay, h = recurrence.cfc_fwd(still, still, zero, still + 2, torch.ones(1, device=device), forever)
    assert_bit_equal(decay, still + 1)
    assert_bit_equal(h, still + 2)


def test_wrong_arguments_are_named():
    x, w, b = arguments("vsn", TINY)
    with pytest.raises(Mistake, match=r"w_FF must have 24 on axis 0 \(F\), got 23"):
        encoder.vsn_fwd(x, w[:23], b)
    with pytest.raises(Mistake, match=r"b_F must be torch\.float32"):
        encoder.vsn_fwd(x, w, b.double())
    with pytest.raises(Mistake, match="e_BTH must be 3-D"):
        encoder.attention_fwd(x[0], b)
    u, dt_bias, a_log, d, n = arguments("mamba", TINY)
    with pytest.raises(Mistake, match=r"u_BTU must have 2 H \+ 10 \+ 4 columns, H a multiple of 4, got 44"):
        recurrence.mamba_fwd(u, dt_bias, a_log, d, n + 1)
    with pytest.raises(Mistake, match=r"a_log_M must have 4 on axis 0 \(a value for each head\), got 3"):
        recurrence.mamba_fwd(u, dt_bias, a_log[:3], d, n)


@of_each_op
def test_the_second_net_holds_below_python(name):
    """Every tensor argument, cut short on its last axis, is refused by the compiled operator itself."""
    forward = (*arguments(name, RAGGED), 1) if name == "mamba" else arguments(name, RAGGED)
    for step, inputs in (("fwd", forward), ("bwd", backward(name, RAGGED))):
        for i, x in enumerate(inputs):
            if isinstance(x, Tensor):
                cut = [*inputs[:i], x[..., :-1].contiguous(), *inputs[i + 1 :]]
                with pytest.raises(RuntimeError, match="must"):
                    getattr(torch.ops.foxflow, f"{name}_{step}")(*cut)


@on_each_device
@pytest.mark.parametrize(
    ("shape", "every"), [(DEFAULT, 4), (DEFAULT, 2), (DEFAULT, 16), (TINY, 4), (RAGGED, 5), (EXACT, 3)]
)
def test_with_few_of_its_states_kept_the_mixer_gives_the_same_bits(device, shape, every):
    inputs = arguments("mamba", shape, device)
    u, *heads = inputs[:4]
    state, y, gated = recurrence.mamba_fwd(*inputs)
    few, *same = recurrence.mamba_fwd(*inputs, every=every)
    wanted = recurrence.mamba_bwd(u, state, y, *heads, gated)
    found = recurrence.mamba_bwd(u, few, y, *heads, gated)
    for mine, want in zip((few, *same, *found), (state[:, every - 1 :: every], y, gated, *wanted), strict=True):
        assert_bit_equal(mine, want)


def test_what_is_kept_must_divide_the_window():
    u, dt_bias, a_log, d, n = arguments("mamba", TINY)
    with pytest.raises(Mistake, match="every must divide the 4 steps of u_BTU, got 3"):
        recurrence.mamba_fwd(u, dt_bias, a_log, d, n, 3)
    state, y, gated = recurrence.mamba_fwd(u, dt_bias, a_log, d, n)
    with pytest.raises(Mistake, match="state_BKMNP must have a divisor of 4 on axis 1, got 3"):
        recurrence.mamba_bwd(u, state[:, :3], y, dt_bias, a_log, d, gated)


@on_each_device
def test_no_rows_give_no_rows_and_an_empty_window_is_refused(device):
    for name, call in FORWARD.items():
        empty = call(*arguments(name, replace(TINY, B=0), device))
        assert all(x.shape[0] == 0 for x in empty)
    for name in ("mamba", "attention"):
        with pytest.raises(RuntimeError, match="must have steps"):
            FORWARD[name](*arguments(name, replace(TINY, T=0), device))
    with pytest.raises(RuntimeError, match="must have features"):
        FORWARD["vsn"](*arguments("vsn", replace(TINY, F=0), device))
