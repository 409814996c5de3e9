"""The model of docs/trainer.md as a PyTorch user writes it: nn modules, batched products, autograd.

Axes: B batch rows, T window, F features, H hidden, M heads of Mamba-2, N its state size, P its head size, A actions,
Z atoms, Q quantiles, E cosines, Y bins.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from foxflow.config import HORIZONS, Shape


class Mamba2(nn.Module):
    """A selective state space block, as a recurrence over T or in the quadratic form of the paper's section 6.

    Args:
        s: sizes.
        quadratic: attention-like products over the window instead of the recurrence: fewer launches, more work.
    """

    def __init__(self, s: Shape, quadratic: bool) -> None:
        super().__init__()
        self.split, self.heads, self.quadratic = [s.H, s.H, s.N, s.N, s.M], (s.M, s.P), quadratic
        self.enter = nn.Linear(s.H, s.U, bias=False)
        self.dt_bias, self.a_log, self.d = (nn.Parameter(torch.zeros(s.M)) for _ in range(3))
        self.out = nn.Linear(s.H, s.H, bias=False)

    def forward(self, x_BTH: Tensor) -> Tensor:
        z, x, write_BTN, read_BTN, delta_BTM = self.enter(x_BTH).split(self.split, -1)
        x_BTMP = x.unflatten(-1, self.heads)
        step_BTM = functional.softplus(delta_BTM + self.dt_bias)
        log_decay_BTM = -step_BTM * self.a_log.exp()
        scan = quadratic_form if self.quadratic else recurrence
        y = scan(log_decay_BTM, step_BTM[..., None] * x_BTMP, write_BTN, read_BTN) + self.d[:, None] * x_BTMP
        return self.out(y.flatten(-2) * functional.silu(z))


def recurrence(log_decay_BTM: Tensor, x_BTMP: Tensor, write_BTN: Tensor, read_BTN: Tensor) -> Tensor:
    """S_t = a_t S_(t-1) + x_t B_t, y_t = S_t C_t: one update of all rows and heads a time step."""
    decay = log_decay_BTM.exp()[..., None, None].unbind(1)
    entering = (x_BTMP[..., None] * write_BTN[:, :, None, None]).unbind(1)
    states = [entering[0]]
    for t in range(1, len(entering)):
        states.append(torch.addcmul(entering[t], decay[t], states[-1]))
    return torch.einsum("btmpn,btn->btmp", torch.stack(states, 1), read_BTN)


def quadratic_form(log_decay_BTM: Tensor, x_BTMP: Tensor, write_BTN: Tensor, read_BTN: Tensor) -> Tensor:
    """The same without states: y_t = sum over s <= t of (C_t B_s) exp(log a over s+1..t) x_s."""
    reach = log_decay_BTM.cumsum(1)
    later = torch.ones(reach.shape[1], reach.shape[1], dtype=torch.bool, device=reach.device).tril()[:, :, None]
    decay_BTSM = (reach[:, :, None] - reach[:, None]).masked_fill(~later, -torch.inf).exp()
    scores_BTSM = torch.einsum("btn,bsn->bts", read_BTN, write_BTN)[..., None] * decay_BTSM
    return torch.einsum("btsm,bsmp->btmp", scores_BTSM, x_BTMP)


class Trunk(nn.Module):
    """Variable selection, two Mamba-2 blocks with layer norms, attention pool, CfC cell."""

    def __init__(self, s: Shape, quadratic: bool) -> None:
        super().__init__()
        self.select, self.enter = nn.Linear(s.F, s.F), nn.Linear(s.F, s.H)
        self.mamba_a, self.mamba_b = Mamba2(s, quadratic), Mamba2(s, quadratic)
        self.norm_a, self.norm_b = nn.LayerNorm(s.H), nn.LayerNorm(s.H)
        self.query = nn.Parameter(torch.zeros(s.H))
        self.cell_in, self.cell_rec = nn.Linear(s.H, s.H), nn.Linear(s.H, s.H, bias=False)
        self.tau = nn.Parameter(torch.ones(s.H))

    def forward(self, x_BTF: Tensor, carry_BH: Tensor, dt_B: Tensor) -> Tensor:
        e = self.enter(x_BTF.shape[-1] * torch.softmax(self.select(x_BTF), -1) * x_BTF)
        e = self.norm_a(e + self.mamba_a(e))
        e = self.norm_b(e + self.mamba_b(e))
        alpha_BT = torch.softmax(e @ self.query / math.sqrt(e.shape[-1]), 1)
        context = torch.einsum("bt,bth->bh", alpha_BT, e)
        candidate = torch.tanh(self.cell_in(context) + self.cell_rec(carry_BH))
        return candidate + (carry_BH - candidate) * torch.exp(-dt_B[:, None] / self.tau)


class Dueling(nn.Module):
    """V + A - mean A."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.v, self.a = nn.Linear(s.H, 1), nn.Linear(s.H, s.A)

    def forward(self, h_BH: Tensor) -> Tensor:
        advantage = self.a(h_BH)
        return self.v(h_BH) + advantage - advantage.mean(1, keepdim=True)


class Quantiles(nn.Module):
    """IQN: values [B, Q, A] of drawn fractions tau."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.embed, self.out = nn.Linear(s.E, s.H), nn.Linear(s.H, s.A)
        self.register_buffer("frequencies", math.pi * torch.arange(s.E, dtype=torch.float32), persistent=False)

    def forward(self, h_BH: Tensor, tau_BQ: Tensor) -> Tensor:
        phi_BQH = functional.relu(self.embed(torch.cos(tau_BQ[..., None] * self.frequencies)))
        return self.out(h_BH[:, None] * phi_BQH)


class Model(nn.Module):
    """The trunk and seven heads; `iqn` and `dueling` are to be fed a detached encoding."""

    def __init__(self, s: Shape, quadratic: bool) -> None:
        super().__init__()
        self.trunk = Trunk(s, quadratic)
        self.q, self.pi, self.v = nn.Linear(s.H, s.A * s.Z), nn.Linear(s.H, s.A), nn.Linear(s.H, 1)
        self.iqn, self.dueling = Quantiles(s), Dueling(s)
        self.frd, self.outcome = nn.Linear(s.H, len(HORIZONS) * s.Y), nn.Linear(s.H, 3)


def place(key: str) -> str:
    """Where a weight of foxflow's table lives in `Model`: `trunk.ma_u` is `trunk.mamba_a.enter.weight`."""
    group, _, rest = key.partition(".")
    if group != "trunk":
        return HEADS.get(key) or key.replace("_w", ".weight").replace("_b", ".bias")
    if rest[:3] in ("ma_", "mb_"):
        return f"trunk.mamba_{rest[1]}.{BLOCK[rest[3:]]}"
    return f"trunk.{TRUNK[rest]}"


BLOCK = {"u": "enter.weight", "dtb": "dt_bias", "alog": "a_log", "d": "d", "o": "out.weight"}
TRUNK = {
    "vsn_w": "select.weight",
    "vsn_b": "select.bias",
    "in_w": "enter.weight",
    "in_b": "enter.bias",
    **{f"ln_{n}_{part}": f"norm_{n}.{name}" for n in "ab" for part, name in (("gain", "weight"), ("bias", "bias"))},
    "attn_q": "query",
    "cfc_w_in": "cell_in.weight",
    "cfc_w_rec": "cell_rec.weight",
    "cfc_b": "cell_in.bias",
    "cfc_tau": "tau",
}
HEADS = {
    "iqn.e_w": "iqn.embed.weight",
    "iqn.e_b": "iqn.embed.bias",
    "iqn.o_w": "iqn.out.weight",
    "iqn.o_b": "iqn.out.bias",
}
