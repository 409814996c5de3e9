"""The trunk, forward: VSN, two Mamba-2 blocks with layer norms, attention pool, CfC cell.

Axes as in docs/trainer.md; R = B T rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd

import torch
from torch import Tensor

from foxflow.agent.stage import Named, Stage, walk
from foxflow.config import Shape
from foxflow.ops import encoder as ops
from foxflow.ops import recurrence
from foxflow.ops.linalg import matmul

Every = Callable[[Shape], int]
"""After how many steps a Mamba state is kept; those between are made anew on the way back."""


def forward(w: Named, s: Shape, x_BTF: Tensor, carry_BH: Tensor, dt_B: Tensor) -> Tensor:
    """Encode windows, without a backward pass to follow.

    Args:
        w: the trunk's weights by key.
        s: sizes.
        x_BTF: features.
        carry_BH: the cell's state before the window's last row.
        dt_B: seconds since the row before.

    Returns:
        The encoding, [B, H].
    """
    x = {"window": x_BTF, "carry": carry_BH, "dt": dt_B}
    walk(ACTS, w, s, x)
    return x["h"]


def slide(w: Named, s: Shape, x: Named, row_B1F: Tensor, carry_BH: Tensor, dt_B: Tensor) -> Tensor:
    """Encode windows that have slid on by a row: what is made of each row alone is made of the new one only.

    Args:
        w: the trunk's weights by key.
        s: sizes.
        x: what the forward pass made of the windows before, by these weights.
        row_B1F: features of the new row.
        carry_BH: the cell's state before it.
        dt_B: seconds since the row before.

    Returns:
        What `forward` makes of the whole windows, [B, H].
    """
    last = {"window": row_B1F}
    walk(BY_ROW, w, replace(s, T=1), last)
    slid = {name: torch.cat([x[name][:, 1:], last[name]], 1) for name in ("enc_in", "mamba_a_u")}
    slid |= {"carry": carry_BH, "dt": dt_B}
    walk(OVER_ROWS, w, s, slid)
    return slid["h"]


def _vsn(w: Named, _s: Shape, x: Named) -> tuple[Tensor, ...]:
    return ops.vsn_fwd(x["window"], w["trunk.vsn_w"], w["trunk.vsn_b"])


def _enc_in(w: Named, s: Shape, x: Named) -> tuple[Tensor, ...]:
    return (matmul(x["vsn_out"].view(-1, s.F), w["trunk.in_w"], w["trunk.in_b"]).view(-1, s.T, s.H),)


def _attention(w: Named, _s: Shape, x: Named) -> tuple[Tensor, ...]:
    return ops.attention_fwd(x["ln_b_out"], w["trunk.attn_q"])


def _cell(w: Named, _s: Shape, x: Named) -> tuple[Tensor, ...]:
    drive_in, drive_rec = matmul(x["attn_ctx"], w["trunk.cfc_w_in"]), matmul(x["carry"], w["trunk.cfc_w_rec"])
    return recurrence.cfc_fwd(drive_in, drive_rec, w["trunk.cfc_b"], x["carry"], x["dt"], w["trunk.cfc_tau"])


def _block(name: str, entry: str, every: Every) -> tuple[Stage, ...]:
    """A Mamba-2 block and its layer norm."""
    mamba, norm, m = f"mamba_{name}", f"ln_{name}", f"trunk.m{name}"

    def project(w: Named, s: Shape, x: Named) -> tuple[Tensor, ...]:
        return (matmul(x[entry].view(-1, s.H), w[f"{m}_u"]).view(-1, s.T, s.U),)

    def scan(w: Named, s: Shape, x: Named) -> tuple[Tensor, ...]:
        return recurrence.mamba_fwd(x[f"{mamba}_u"], w[f"{m}_dtb"], w[f"{m}_alog"], w[f"{m}_d"], s.N, every(s))

    def out(w: Named, s: Shape, x: Named) -> tuple[Tensor, ...]:
        return (matmul(x[f"{mamba}_gated"].view(-1, s.H), w[f"{m}_o"]).view(-1, s.T, s.H),)

    def normalise(w: Named, s: Shape, x: Named) -> tuple[Tensor, ...]:
        rows = (x[entry].view(-1, s.H), x[f"{mamba}_out"].view(-1, s.H))
        scaled, *rest = ops.layer_norm_fwd(*rows, w[f"trunk.{norm}_gain"], w[f"trunk.{norm}_bias"])
        return scaled.view(-1, s.T, s.H), *rest

    return (
        Stage((f"{mamba}_u",), project),
        Stage((f"{mamba}_state", f"{mamba}_y", f"{mamba}_gated"), scan),
        Stage((f"{mamba}_out",), out),
        Stage((f"{norm}_out", f"{norm}_norm", f"{norm}_rstd"), normalise),
    )


def _stages(every: Every) -> tuple[Stage, ...]:
    return (
        Stage(("vsn_gate", "vsn_out"), _vsn),
        Stage(("enc_in",), _enc_in),
        *_block("a", "enc_in", every),
        *_block("b", "ln_a_out", every),
        Stage(("attn_alpha", "attn_ctx"), _attention),
        Stage(("cfc_cand", "cfc_decay", "h"), _cell),
    )


ACTS, LEARNS = _stages(lambda s: s.T), _stages(lambda s: gcd(s.T, 4))
"""The forward pass from `window`, `carry` and `dt` to `h`; the second one for a backward pass to follow."""
BY_ROW, OVER_ROWS = ACTS[:3], ACTS[3:]
"""The first part of `ACTS` makes each row of `enc_in` and `mamba_a_u` from one row of the window."""
SHOWS = _stages(lambda _: 1)
"""As `LEARNS`, with the Mamba states of every step, as a record holds them."""
