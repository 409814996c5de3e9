"""Inputs of every operator of the heads, and one digest of all they give."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from bits import sha
from torch import Tensor

from foxflow.ops import dueling, iqn, losses, policy, targets


@dataclass(frozen=True)
class Shape:
    B: int = 128
    A: int = 9
    Z: int = 21
    Q: int = 32
    E: int = 64
    H: int = 128
    Y: int = 21


DEFAULT, TINY = Shape(), Shape(B=8, Z=5, Q=8, E=8, H=16)
SMALL = Shape(B=3, A=4, Z=5, Q=19, E=5, H=6, Y=5)
SHAPES = [DEFAULT, TINY, SMALL]

MIX = ("iqn_mix_fwd", "iqn_mix_bwd")
TARGETS = ("c51_target", "v_target", "iqn_target", "dueling_target")
LOSSES = ("c51_loss", "pi_loss", "v_loss", "iqn_loss", "dueling_loss", "frd_loss", "outcome_loss")


def operator(name: str):
    """The function of this name, whichever module of foxflow.ops holds it."""
    return next(getattr(module, name) for module in (policy, iqn, dueling, targets, losses) if hasattr(module, name))


def arguments(s: Shape, device: str = "cpu", dtype: torch.dtype = torch.float32) -> dict[str, tuple]:
    """Arguments of each operator by its name: labels with -1 among them, both ends of the clips, rows done."""
    g = torch.Generator().manual_seed(s.B * 1009 + s.Z)

    def normal(*shape: int, scale: float = 1.0) -> Tensor:
        return (torch.randn(*shape, generator=g, dtype=torch.float64) * scale).to(dtype).to(device)

    def integers(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, generator=g, dtype=torch.int32).to(device)

    action, isv = integers(0, s.A, s.B), torch.zeros(16, device=device)
    isv[1], isv[2] = 0.01, 0.99
    weight = torch.rand(s.B, generator=g, dtype=torch.float64).to(dtype).to(device)
    tau = (torch.rand(s.B, s.Q, generator=g, dtype=torch.float64) * 0.98 + 0.01).to(dtype).to(device)
    prng = torch.randint(1, 2**32, (s.B,), generator=g, dtype=torch.int64).to(torch.uint32).to(device)
    world = (normal(s.B), integers(0, 2, s.B).to(torch.uint8), isv)
    q_logits, pi_logits, q_values = normal(s.B, s.A, s.Z), normal(s.B, s.A), normal(s.B, s.Q, s.A)
    pre, h = normal(s.B, s.Q, s.H), normal(s.B, s.H)
    log_pi = torch.log_softmax(pi_logits.double().cpu(), 1)
    log_pi_old = log_pi.gather(1, action.long().cpu()[:, None])[:, 0].to(dtype).to(device)
    return {
        "sample_action": (pi_logits, prng),
        "greedy_action": (pi_logits,),
        "iqn_tau_cos": (prng, s.Q, s.E),
        "iqn_mix_fwd": (pre, h),
        "iqn_mix_bwd": (pre, h, normal(s.B, s.Q, s.H)),
        "dueling_compose": (normal(s.B, 1), pi_logits),
        "dueling_split": (normal(s.B, s.A),),
        "c51_target": (q_logits, *world),
        "v_target": (normal(s.B, 1), *world),
        "iqn_target": (q_values, *world),
        "dueling_target": (normal(s.B, s.A), *world),
        "c51_loss": (q_logits, torch.softmax(normal(s.B, s.Z).cpu(), 1).to(device), action, weight),
        "pi_loss": (pi_logits, action, log_pi_old + normal(s.B, scale=0.3), normal(s.B), isv),
        "v_loss": (normal(s.B, 1), normal(s.B)),
        "iqn_loss": (q_values, tau, normal(s.B, s.Q, scale=2.0), action, weight),
        "dueling_loss": (normal(s.B, s.A), normal(s.B, scale=2.0), action, weight),
        "frd_loss": (normal(s.B, 3, s.Y), integers(-1, s.Y, s.B, 3)),
        "outcome_loss": (normal(s.B, 3), integers(-1, 3, s.B)),
    }


def tensors(result: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def everything(s: Shape, device: str = "cpu") -> str:
    """A digest of what every operator gives."""
    given = [out for name, args in arguments(s, device).items() for out in tensors(operator(name)(*args))]
    state = arguments(s, device)["iqn_tau_cos"][0].clone()
    policy.prng_advance(state, 8)
    return sha(*given, state)
