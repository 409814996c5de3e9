"""Every operator of the heads: right, one result everywhere, checked at its edge."""

from __future__ import annotations

import pytest
import torch
from bits import DEVICES, assert_bit_equal, assert_close, fresh_process
from ops.heads.head_cases import DEFAULT, SHAPES, SMALL, TINY, arguments, everything, operator, tensors

from foxflow.errors import Mistake
from foxflow.ops import dueling, iqn, losses, policy, targets
from foxflow.reference import heads as reference

HAND_BACKWARD = {"iqn_mix_bwd", "dueling_split"}
BOUND = {"sample_action": 1e-6, "pi_loss": 4e-6, "c51_target": 2e-6, "iqn_loss": 1e-6, "iqn_tau_cos": 2e-7}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", SHAPES, ids=["default", "tiny", "small"])
@pytest.mark.parametrize("name", sorted(set(arguments(SMALL)) - HAND_BACKWARD))
def test_agrees_with_float64(name, shape, device):
    """Float32 against float64: 1e-6 of the largest element, or the bound stated above."""
    args = arguments(shape, device)[name]
    for got, want in zip(tensors(operator(name)(*args)), tensors(getattr(reference, name)(*args)), strict=True):
        if want.dtype.is_floating_point:
            assert_close(got, want, rtol=BOUND.get(name, 1e-6))
        else:
            assert torch.equal(got.cpu(), want.cpu())


@pytest.mark.parametrize("device", DEVICES)
def test_every_run_gives_the_same_bits(device):
    assert len({everything(shape, device) for shape in [DEFAULT] * 3}) == 1
    assert everything(TINY, device) != everything(DEFAULT, device)


def test_neither_threads_nor_instruction_sets_nor_fresh_processes_change_a_bit():
    code = (
        "import os; os.environ['FOXFLOW_SIMD'] = {!r}\n"
        "import torch; torch.set_num_threads({})\n"
        "from ops.heads.head_cases import DEFAULT, SMALL, everything; print(everything(DEFAULT), everything(SMALL))"
    )
    here = f"{everything(DEFAULT)} {everything(SMALL)}"
    assert {fresh_process(code.format("plain", 1)), fresh_process(code.format("avx2", 2))} == {here}


@pytest.mark.gpu
@pytest.mark.parametrize("shape", SHAPES, ids=["default", "tiny", "small"])
def test_a_gpu_gives_the_bits_of_the_processor(shape):
    assert everything(shape, "cuda") == everything(shape)


@pytest.mark.parametrize("device", DEVICES)
def test_embedded_quantiles_and_dueling_values_are_differentiable(device):
    args = arguments(SMALL, device, torch.float64)
    pre, h = args["iqn_mix_fwd"]
    assert torch.autograd.gradcheck(lambda x: iqn.iqn_mix_fwd(x, h), (pre.requires_grad_(),), nondet_tol=0.0)
    parts = tuple(x.requires_grad_() for x in args["dueling_compose"])
    assert torch.autograd.gradcheck(dueling.dueling_compose, parts, nondet_tol=0.0)


@pytest.mark.parametrize("device", DEVICES)
def test_backward_by_hand_is_autograd_of_the_reference(device):
    args = arguments(TINY, device)
    pre, h, grad = args["iqn_mix_bwd"]
    wanted = torch.autograd.grad(reference.iqn_mix_fwd(pre.requires_grad_(), h), pre, grad.double())[0]
    assert_close(iqn.iqn_mix_bwd(pre.detach(), h, grad), wanted, rtol=1e-7)
    (grad,) = args["dueling_split"]
    parts = [x.double().requires_grad_() for x in args["dueling_compose"]]
    wanted = torch.autograd.grad(reference.dueling_compose(*parts), parts, grad.double())
    for got, want in zip(dueling.dueling_split(grad), wanted, strict=True):
        assert_close(got, want, rtol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_the_state_gets_no_gradient_from_iqn(device):
    pre, h = (x.requires_grad_() for x in arguments(SMALL, device)["iqn_mix_fwd"])
    iqn.iqn_mix_fwd(pre, h).sum().backward()
    assert pre.grad is not None
    assert h.grad is None


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", sorted(arguments(SMALL)))
def test_opcheck(name, device):
    args = arguments(SMALL, device)[name]
    if name in ("iqn_mix_fwd", "dueling_compose"):
        args = (args[0].requires_grad_(), *args[1:])
    torch.library.opcheck(getattr(torch.ops.foxflow, name).default, args)


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck_of_the_advance(device):
    prng = arguments(SMALL, device)["iqn_tau_cos"][0]
    torch.library.opcheck(torch.ops.foxflow.prng_advance.default, (prng, 8))


@pytest.mark.parametrize("name", sorted(arguments(SMALL)))
def test_strided_inputs_are_read_as_what_they_hold(name):
    args = arguments(SMALL)[name]
    strided = [torch.stack([x, x], -1)[..., 0] if isinstance(x, torch.Tensor) else x for x in args]
    assert not strided[0].is_contiguous()
    for got, want in zip(tensors(operator(name)(*strided)), tensors(operator(name)(*args)), strict=True):
        assert_bit_equal(got, want)


def test_mistakes_are_named():
    args = arguments(SMALL)
    logits, prng = args["sample_action"]
    q_logits, reward, done, isv = args["c51_target"]
    with pytest.raises(Mistake, match=r"prng_B must have 3 on axis 0 \(logits_BA's rows\), got 2"):
        policy.sample_action(logits, prng[:2])
    with pytest.raises(Mistake, match=r"prng_B must be uint32, got torch\.int64"):
        policy.sample_action(logits, prng.long())
    with pytest.raises(Mistake, match="logits_BA must have at least one action on axis 1, got 0"):
        policy.greedy_action(logits[:, :0])
    with pytest.raises(Mistake, match=r"prng_B must be contiguous, got strides \(2,\). It is advanced in place"):
        policy.prng_advance(torch.ones(8).to(torch.uint32)[::2], 1)
    with pytest.raises(Mistake, match="times must be at least 0, got -1"):
        policy.prng_advance(prng, -1)
    with pytest.raises(Mistake, match="cosines must be at least 1, got 0"):
        iqn.iqn_tau_cos(prng, 4, 0)
    with pytest.raises(Mistake, match=r"h_BH must have 6 on axis 1 \(pre_BQH's last axis\), got 5"):
        iqn.iqn_mix_fwd(args["iqn_mix_fwd"][0], args["iqn_mix_fwd"][1][:, :5])
    with pytest.raises(Mistake, match=r"grad_out_BQH must have 19 on axis 1 \(as pre_BQH\), got 18"):
        iqn.iqn_mix_bwd(*args["iqn_mix_fwd"], args["iqn_mix_bwd"][2][:, :18])
    with pytest.raises(Mistake, match=r"v_B1 must have 1 on axis 1 \(one value a row\), got 4"):
        dueling.dueling_compose(logits, logits)
    with pytest.raises(Mistake, match="grad_BA must have at least one action"):
        dueling.dueling_split(logits[:, :0])
    with pytest.raises(Mistake, match=r"logits_BAZ must have 2 on axis 2 \(atoms need a distance\), got 1"):
        targets.c51_target(q_logits[:, :, :1], reward, done, isv)
    with pytest.raises(Mistake, match=r"done_B must be uint8, got torch\.bool"):
        targets.c51_target(q_logits, reward, done.bool(), isv)
    with pytest.raises(Mistake, match=r"isv must have 16 on axis 0 \(state variables\), got 8"):
        targets.c51_target(q_logits, reward, done, isv[:8])
    with pytest.raises(Mistake, match="q_BQA must have at least one element on axis 1, got 0"):
        targets.iqn_target(args["iqn_target"][0][:, :0], reward, done, isv)


@pytest.mark.parametrize(
    ("name", "position", "message"),
    [
        ("c51_loss", 1, "target_BZ must have 3 on axis 0"),
        ("c51_loss", 2, "action_B must have 3 on axis 0"),
        ("pi_loss", 3, "advantage_B must have 3 on axis 0"),
        ("pi_loss", 4, "isv must have 16 on axis 0"),
        ("v_loss", 1, "target_B must have 3 on axis 0"),
        ("iqn_loss", 1, "tau_BQ must have 3 on axis 0"),
        ("iqn_loss", 4, "weight_B must have 3 on axis 0"),
        ("dueling_loss", 1, "target_B must have 3 on axis 0"),
        ("frd_loss", 1, "label_BS must have 3 on axis 0"),
        ("outcome_loss", 1, "label_B must have 3 on axis 0"),
    ],
)
def test_a_missing_row_of_a_loss_is_named(name, position, message):
    args = list(arguments(SMALL)[name])
    args[position] = args[position][:2]
    with pytest.raises(Mistake, match=message):
        operator(name)(*args)


def test_a_loss_refuses_other_dtypes():
    q, target, action, weight = arguments(SMALL)["dueling_loss"]
    with pytest.raises(Mistake, match=r"action_B must be int32, got torch\.int64"):
        losses.dueling_loss(q, target, action.long(), weight)
    with pytest.raises(Mistake, match=r"weight_B must be torch.float32, got torch.float64"):
        losses.dueling_loss(q, target, action, weight.double())
