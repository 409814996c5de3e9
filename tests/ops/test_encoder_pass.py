"""One whole pass of the encoder, forward and backward by the hand-written operators, against autograd."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from bits import DEVICES, assert_bit_equal, assert_close, sha
from ops.encoder_inputs import DEFAULT, TINY, Shape
from torch import Tensor

from foxflow.ops import encoder, linalg, recurrence
from foxflow.reference import encoder as reference

on_each_device = pytest.mark.parametrize("device", DEVICES)


def trunk(s: Shape, device: str) -> dict[str, Tensor]:
    """The 23 weights, drawn so that every part of the formulas is felt."""
    g = torch.Generator().manual_seed(s.H)

    def draw(*sizes: int, scale: float = 0.3) -> Tensor:
        return torch.randn(*sizes, generator=g, dtype=torch.float64) * scale

    def matrix(rows: int, columns: int) -> Tensor:
        return draw(rows, columns, scale=1 / math.sqrt(rows))

    w = {"vsn_w": matrix(s.F, s.F), "vsn_b": draw(s.F), "in_w": matrix(s.F, s.H), "in_b": draw(s.H)}
    for k in "ab":
        w |= {f"m{k}_u": matrix(s.H, s.width), f"m{k}_dtb": draw(s.heads) - 1, f"m{k}_alog": draw(s.heads)}
        w |= {f"m{k}_d": 1 + draw(s.heads), f"m{k}_o": matrix(s.H, s.H)}
        w |= {f"ln_{k}_gain": 1 + draw(s.H), f"ln_{k}_bias": draw(s.H)}
    w |= {"attn_q": draw(s.H, scale=1.0), "cfc_w_in": matrix(s.H, s.H), "cfc_w_rec": matrix(s.H, s.H)}
    w |= {"cfc_b": draw(s.H), "cfc_tau": 0.5 + draw(s.H).abs()}
    return {name: value.to(device, s.dtype) for name, value in w.items()}


def observed(s: Shape, device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Windows, carried state, seconds and a gradient of the new state."""
    g = torch.Generator().manual_seed(s.F)
    sizes = ((s.B, s.T, s.F), (s.B, s.H), (s.B,), (s.B, s.H))
    x, h, dt, grad = (torch.randn(size, generator=g, dtype=torch.float64).to(device, s.dtype) for size in sizes)
    return x, h, dt.abs() + 0.05, grad


def forward(w: dict[str, Tensor], x: Tensor, h_prev: Tensor, dt: Tensor, s: Shape) -> dict[str, Tensor]:
    """The pass by the operators, with all that the way back needs."""
    flat = lambda name: a[name].reshape(s.B * s.T, -1)  # noqa: E731
    a: dict[str, Tensor] = {"x": x, "h_prev": h_prev, "dt": dt}
    a["gate"], a["selected"] = encoder.vsn_fwd(x, w["vsn_w"], w["vsn_b"])
    a["a_in"] = linalg.matmul(flat("selected"), w["in_w"], w["in_b"])
    for k, after in ("a", "b_in"), ("b", "e"):
        a[f"{k}_u"] = linalg.matmul(a[f"{k}_in"], w[f"m{k}_u"]).reshape(s.B, s.T, s.width)
        mixer = (w[f"m{k}_dtb"], w[f"m{k}_alog"], w[f"m{k}_d"])
        a[f"{k}_state"], a[f"{k}_y"], a[f"{k}_gated"] = recurrence.mamba_fwd(a[f"{k}_u"], *mixer, s.N)
        mixed = linalg.matmul(flat(f"{k}_gated"), w[f"m{k}_o"])
        shape = (w[f"ln_{k}_gain"], w[f"ln_{k}_bias"])
        a[after], a[f"{k}_norm"], a[f"{k}_rstd"] = encoder.layer_norm_fwd(a[f"{k}_in"], mixed, *shape)
    a["e"] = a["e"].reshape(s.B, s.T, s.H)
    a["alpha"], a["context"] = encoder.attention_fwd(a["e"], w["attn_q"])
    drives = linalg.matmul(a["context"], w["cfc_w_in"]), linalg.matmul(h_prev, w["cfc_w_rec"])
    cell = (w["cfc_b"], h_prev, dt, w["cfc_tau"])
    a["candidate"], a["decay"], a["h"] = recurrence.cfc_fwd(*drives, *cell)
    return a


def backward(w: dict[str, Tensor], a: dict[str, Tensor], grad_h: Tensor, s: Shape) -> dict[str, Tensor]:
    """The gradient of every weight by the operators, row sums in chunks of 32 batch rows."""
    rows = s.B * s.T
    total = lambda x: linalg.sum_rows(linalg.sum_rows(x, 32), rows)[0]  # noqa: E731
    over_steps = lambda x: linalg.sum_rows(linalg.sum_rows(x, 32 * s.T), rows)[0]  # noqa: E731

    def outer(left: Tensor, right: Tensor, chunk: int) -> Tensor:
        parts = linalg.matmul_rows(left.reshape(-1, left.shape[-1]), right.reshape(-1, right.shape[-1]), chunk)
        return linalg.sum_rows(parts.reshape(parts.shape[0], -1), rows)[0].reshape(parts.shape[1:])

    drive, tau = recurrence.cfc_bwd(a["candidate"], a["decay"], a["h_prev"], a["dt"], w["cfc_tau"], grad_h)
    g = {"cfc_w_in": outer(a["context"], drive, 32), "cfc_w_rec": outer(a["h_prev"], drive, 32)}
    g |= {"cfc_b": total(drive), "cfc_tau": total(tau)}
    grad, q = encoder.attention_bwd(a["e"], w["attn_q"], a["alpha"], linalg.matmul_nt(drive, w["cfc_w_in"]))
    g["attn_q"] = total(q)
    for k in "ba":
        grad = grad.reshape(rows, s.H)
        g[f"ln_{k}_bias"] = over_steps(grad)
        branch, gain = encoder.layer_norm_bwd(a[f"{k}_norm"], a[f"{k}_rstd"], w[f"ln_{k}_gain"], grad)
        g[f"ln_{k}_gain"] = over_steps(gain)
        g[f"m{k}_o"] = outer(a[f"{k}_gated"], branch, 32 * s.T)
        gated = linalg.matmul_nt(branch, w[f"m{k}_o"]).reshape(s.B, s.T, s.H)
        saved = (a[f"{k}_u"], a[f"{k}_state"], a[f"{k}_y"])
        mixer = (w[f"m{k}_dtb"], w[f"m{k}_alog"], w[f"m{k}_d"])
        u, *per_head = recurrence.mamba_bwd(*saved, *mixer, gated)
        g |= {f"m{k}_{part}": total(x) for part, x in zip(("dtb", "alog", "d"), per_head, strict=True)}
        g[f"m{k}_u"] = outer(a[f"{k}_in"], u, 32 * s.T)
        grad = branch + linalg.matmul_nt(u.reshape(rows, -1), w[f"m{k}_u"])
    g |= {"in_w": outer(a["selected"], grad, 32 * s.T), "in_b": over_steps(grad)}
    selected = linalg.matmul_nt(grad, w["in_w"]).reshape(a["x"].shape)
    logits = encoder.vsn_bwd(a["x"], a["gate"], selected)
    return g | {"vsn_w": outer(a["x"], logits, 32 * s.T), "vsn_b": over_steps(logits.reshape(rows, -1))}


@on_each_device
@pytest.mark.parametrize(
    ("shape", "bound"),
    [(DEFAULT, 2e-5), (TINY, 1e-5), (replace(TINY, B=40, dtype=torch.float64), 1e-10)],
    ids=["default", "tiny", "float64"],
)
def test_every_gradient_of_the_trunk_agrees_with_autograd(shape, bound, device):
    """At full size torch's own float32 autograd is 1.1e-5 off on these inputs, hence the wider bound there."""
    w, (x, h_prev, dt, grad) = trunk(shape, device), observed(shape, device)
    activations = forward(w, x, h_prev, dt, shape)
    leaves = {name: value.double().requires_grad_() for name, value in w.items()}
    h = reference.encoder(leaves, x, h_prev, dt, shape.N)
    assert_close(activations["h"], h, rtol=bound)
    want = dict(zip(leaves, torch.autograd.grad(h, list(leaves.values()), grad.double()), strict=True))
    got = backward(w, activations, grad, shape)
    assert got.keys() == want.keys()
    for name, value in got.items():
        assert bool(value.ne(0).any()), f"{name} has no gradient"
        assert_close(value, want[name], rtol=bound)


@on_each_device
def test_a_pass_repeats_and_gives_no_gradient_for_an_empty_carry(device):
    w, (x, h_prev, dt, grad) = trunk(TINY, device), observed(TINY, device)
    passes = [backward(w, forward(w, x, h_prev, dt, TINY), grad, TINY) for _ in range(3)]
    assert len({sha(*(p[name] for name in sorted(p))) for p in passes}) == 1
    fresh = backward(w, forward(w, x, torch.zeros_like(h_prev), dt, TINY), grad, TINY)
    assert_bit_equal(fresh["cfc_w_rec"], torch.zeros_like(w["cfc_w_rec"]))
