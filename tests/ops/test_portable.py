"""Portable exp, log, tanh …: within 2 ulp of float64 over all of float32, and one result everywhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from bits import DEVICES, assert_bit_equal, fresh_process, sha
from torch import Tensor

from foxflow.errors import Mistake
from foxflow.ops import portable

INF, NAN = float("inf"), float("nan")
EXACT = {
    "exp": torch.exp,
    "log": torch.log,
    "log1p": torch.log1p,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": lambda x: x.clamp_min(0) + torch.log1p(torch.exp(-x.abs())),
    "sin": torch.sin,
    "cos": torch.cos,
}
GOLDEN = {
    "exp": "eac3d59913944f62",
    "log": "8cbbfb31cd9552a1",
    "log1p": "4e3a49b94afdc97f",
    "tanh": "e3a5228f32c3eb87",
    "sigmoid": "98340ba2d963b05c",
    "softplus": "67324840a241ed8f",
    "sin": "f04450eb0db1f4ac",
    "cos": "65c1f1c707b223e4",
}


def sample() -> Tensor:
    """Every 40,009th of all 2^32 bit patterns, signed zeros, infinities, NaN and the edges of each formula."""
    patterns = np.arange(0, 2**32, 40009, dtype=np.uint64).astype(np.uint32).view(np.float32)
    edges = [0.0, INF, NAN, 1e-45, 1.17549435e-38, 0.55, 0.785398, 88.7228, 103.97208, 2 / 3, 4 / 3, 3.4028235e38, 1.0]
    marks = torch.tensor([*edges, *(-x for x in edges)])
    return torch.cat([torch.from_numpy(patterns.copy()), marks, torch.linspace(-20, 20, 20001)])


def ulps(got: Tensor, exact: Tensor) -> Tensor:
    """Distance in units of the last place of the exact value's float32; past the largest float32 counts as 2^128."""
    limit = 2.0**128
    exact, got = exact.clamp(-limit, limit), got.double().clamp(-limit, limit)
    exponent = torch.frexp(exact)[1].clamp(-125, 128)
    return (got - exact).abs() / torch.ldexp(torch.ones_like(exact), exponent - 24)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", portable.FUNCTIONS)
def test_every_sampled_float_is_within_two_ulp(function, device):
    x = sample()
    got, exact = portable.apply(function, x.to(device)).cpu(), EXACT[function](x.double())
    nan = exact.isnan()
    assert torch.equal(got.isnan(), nan)
    assert float(ulps(got, exact)[~nan].max()) <= 2.0
    assert torch.equal(torch.signbit(got[~nan]), torch.signbit(exact[~nan])), "the sign of a zero is part of the result"
    assert set(got[nan].view(torch.int32).tolist()) <= {0x7FC00000}


def test_the_bound_of_two_ulp_can_fail():
    x = sample()
    off = torch.exp(x) * (1 + 3 * 2.0**-23)
    assert float(ulps(off, torch.exp(x.double())).nan_to_num().max()) > 2.0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("function", "x", "want"),
    [
        ("exp", -INF, 0.0), ("exp", 89.0, INF), ("exp", -104.0, 0.0), ("exp", -103.0, 1e-45), ("exp", -0.0, 1.0),
        ("log", 0.0, -INF), ("log", -0.0, -INF), ("log", INF, INF), ("log", -1.0, NAN), ("log", 1.0, 0.0),
        ("log1p", -1.0, -INF), ("log1p", -0.0, -0.0), ("log1p", -1.5, NAN), ("log1p", 1e-45, 1e-45),
        ("tanh", -0.0, -0.0), ("tanh", -INF, -1.0), ("tanh", 1e-45, 1e-45), ("sigmoid", -INF, 0.0),
        ("sigmoid", INF, 1.0), ("sigmoid", -103.0, 1e-45), ("softplus", -INF, 0.0), ("softplus", INF, INF),
        ("softplus", -103.0, 1e-45), ("sin", -0.0, -0.0), ("sin", INF, NAN), ("sin", 1e-45, 1e-45),
        ("cos", -INF, NAN), ("cos", -0.0, 1.0),
        *((function, NAN, NAN) for function in portable.FUNCTIONS),
    ],
)  # fmt: skip
def test_special_values(function, x, want, device):
    got = portable.apply(function, torch.tensor([x] * 9, device=device)).cpu()
    assert_bit_equal(got, torch.tensor([want] * 9))


@pytest.mark.parametrize("device", DEVICES)
def test_a_nan_of_any_payload_becomes_one_nan(device):
    odd = torch.tensor([0x7F800001, 0x7FFFFFFF, -1, -0x7FFFFF], dtype=torch.int32, device=device).view(torch.float32)
    for function in portable.FUNCTIONS:
        assert portable.apply(function, odd).view(torch.int32).tolist() == [0x7FC00000] * 4


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", portable.FUNCTIONS)
def test_one_golden_for_every_device(function, device):
    assert sha(portable.apply(function, sample().to(device)))[:16] == GOLDEN[function]


def test_the_golden_is_not_what_torch_computes():
    assert sha(torch.exp(sample()))[:16] != GOLDEN["exp"]


def test_threads_and_instruction_sets_do_not_change_a_bit():
    code = (
        "import os; os.environ['FOXFLOW_SIMD'] = '{}'\n"
        "import torch; from ops.test_portable import all_bits\n"
        "torch.set_num_threads({}); print(all_bits())"
    )
    fresh = {fresh_process(code.format("plain", 1)), fresh_process(code.format("avx2", 2))}
    assert {all_bits() for _ in range(3)} == fresh


def all_bits() -> str:
    x = sample()
    power = portable.power(x.abs(), x.flip(0))
    return sha(power, *(portable.apply(function, x) for function in portable.FUNCTIONS))


@pytest.mark.parametrize("device", DEVICES)
def test_power_is_exp_of_y_log_x(device):
    g = torch.Generator().manual_seed(5)
    x, y = torch.rand(4000, generator=g) * 10, torch.rand(4000, generator=g) * 2 - 1
    x, y = x.to(device), y.to(device)
    got = portable.power(x, y)
    assert_bit_equal(got, portable.apply("exp", y * portable.apply("log", x)))
    assert bool(((got.double() / x.double() ** y.double() - 1).abs() < 1e-6).all())
    assert_bit_equal(portable.power(torch.zeros(1), torch.tensor([0.6])), torch.zeros(1))


@pytest.mark.parametrize("device", DEVICES)
def test_float64_uses_the_standard_library(device):
    x = torch.linspace(0.1, 3, 50, dtype=torch.float64, device=device)
    for function in portable.FUNCTIONS:
        assert torch.allclose(portable.apply(function, x), EXACT[function](x), rtol=1e-14, atol=0)
    assert torch.allclose(portable.power(x, x), x**x, rtol=1e-14, atol=0)


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck_and_shapes(device):
    x = torch.rand(3, 4, device=device)
    assert portable.apply("exp", x.T).shape == (4, 3)
    assert_bit_equal(portable.apply("exp", x.T), portable.apply("exp", x).T.contiguous())
    assert portable.apply("sin", x[:0]).shape == (0, 4)
    torch.library.opcheck(torch.ops.foxflow.portable.default, (x[0], 3))
    torch.library.opcheck(torch.ops.foxflow.portable_pow.default, (x[0], x[1]))


def test_mistakes_are_named():
    x = torch.ones(2)
    with pytest.raises(Mistake, match="function must be one of exp, log"):
        portable.apply("gamma", x)
    with pytest.raises(Mistake, match="x must be float32 or float64, got"):
        portable.apply("exp", torch.ones(2, dtype=torch.int64))
    with pytest.raises(Mistake, match="y must have x's shape"):
        portable.power(x, torch.ones(3))
    with pytest.raises(RuntimeError, match="portable knows functions 0 to 7, got 8"):
        torch.ops.foxflow.portable(x, 8)
