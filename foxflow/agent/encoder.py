"""The trunk: VSN, two Mamba-2 blocks with layer norms, attention pool, CfC cell; backward by hand.

Axes as in docs/trainer.md; R = B T rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from foxflow.config import CHUNK, Shape
from foxflow.ops import encoder as ops
from foxflow.ops import recurrence
from foxflow.ops.linalg import matmul, matmul_nt, matmul_rows, sum_rows


@dataclass(frozen=True, slots=True)
class Block:
    """What one Mamba-2 block and its layer norm leave behind."""

    x_RH: Tensor
    u: Tensor
    state: Tensor
    y: Tensor
    gated: Tensor
    out: Tensor
    norm: Tensor
    rstd: Tensor
    ln_out: Tensor


@dataclass(frozen=True, slots=True)
class Activations:
    """Everything of one forward pass that the backward pass or a record needs."""

    x: Tensor
    carry: Tensor
    dt: Tensor
    gate: Tensor
    vsn_out: Tensor
    enc_in: Tensor
    a: Block
    b: Block
    alpha: Tensor
    context: Tensor
    candidate: Tensor
    decay: Tensor
    h: Tensor


def forward(
    w: dict[str, Tensor], s: Shape, x_BTF: Tensor, carry_BH: Tensor, dt_B: Tensor, *, learns: bool = False
) -> Activations:
    """Encode windows.

    Args:
        w: the trunk's weights by key.
        s: sizes.
        x_BTF: features.
        carry_BH: the cell's state before the window's last row.
        dt_B: seconds since the row before.
        learns: a backward pass follows, so the Mamba states of the whole window are kept.

    Returns:
        The activations; `h` [B, H] is the encoding.
    """
    rows = x_BTF.shape[0] * s.T
    gate, vsn_out = ops.vsn_fwd(x_BTF, w["trunk.vsn_w"], w["trunk.vsn_b"])
    enc_in = matmul(vsn_out.view(rows, s.F), w["trunk.in_w"], w["trunk.in_b"])
    a = _block(w, s, "a", enc_in, learns)
    b = _block(w, s, "b", a.ln_out, learns)
    alpha, context = ops.attention_fwd(b.ln_out.view(-1, s.T, s.H), w["trunk.attn_q"])
    drive_in, drive_rec = matmul(context, w["trunk.cfc_w_in"]), matmul(carry_BH, w["trunk.cfc_w_rec"])
    candidate, decay, h = recurrence.cfc_fwd(drive_in, drive_rec, w["trunk.cfc_b"], carry_BH, dt_B, w["trunk.cfc_tau"])
    return Activations(
        x_BTF, carry_BH, dt_B, gate, vsn_out, enc_in.view(-1, s.T, s.H), a, b, alpha, context, candidate, decay, h
    )


def _block(w: dict[str, Tensor], s: Shape, name: str, x_RH: Tensor, learns: bool) -> Block:
    m = f"trunk.m{name}"
    u = matmul(x_RH, w[f"{m}_u"]).view(-1, s.T, s.U)
    state, y, gated = recurrence.mamba_fwd(u, w[f"{m}_dtb"], w[f"{m}_alog"], w[f"{m}_d"], s.N, learns)
    out = matmul(gated.view(-1, s.H), w[f"{m}_o"])
    ln_out, norm, rstd = ops.layer_norm_fwd(x_RH, out, w[f"trunk.ln_{name}_gain"], w[f"trunk.ln_{name}_bias"])
    return Block(x_RH, u, state, y, gated, out, norm, rstd, ln_out)


@dataclass(frozen=True, slots=True)
class Gradients:
    """One backward pass: buffers for the record, per-row scratches, and per-chunk sums of matrix gradients."""

    record: dict[str, Tensor]
    scratch: dict[str, Tensor]
    chunks: dict[str, Tensor]


def backward(w: dict[str, Tensor], s: Shape, f: Activations, grad_h_BH: Tensor) -> Gradients:
    """Carry a gradient of `h` back to every weight of the trunk; none goes into the carry or the features.

    Args:
        w: the trunk's weights by key.
        s: sizes.
        f: the forward pass.
        grad_h_BH: d loss / d h.
    """
    record: dict[str, Tensor] = {}
    scratch: dict[str, Tensor] = {}
    chunks: dict[str, Tensor] = {}
    drive, grad_tau = recurrence.cfc_bwd(f.candidate, f.decay, f.carry, f.dt, w["trunk.cfc_tau"], grad_h_BH)
    scratch["cfc_grad_w_in_scratch"] = matmul_rows(f.context, drive, 1)
    scratch["cfc_grad_w_rec_scratch"] = matmul_rows(f.carry, drive, 1)
    scratch["cfc_grad_b_scratch"], scratch["cfc_grad_tau_scratch"] = drive, grad_tau
    record["grad_attn_ctx"] = matmul_nt(drive, w["trunk.cfc_w_in"])
    grad_e, scratch["attn_grad_q_scratch"] = ops.attention_bwd(
        f.b.ln_out.view(-1, s.T, s.H), w["trunk.attn_q"], f.alpha, record["grad_attn_ctx"]
    )
    grad = grad_e.view(-1, s.H)
    for name, block in (("b", f.b), ("a", f.a)):
        grad_in, gain_row = ops.layer_norm_bwd(block.norm, block.rstd, w[f"trunk.ln_{name}_gain"], grad)
        scratch[f"grad_ln_{name}_gain_per_row"], scratch[f"grad_ln_{name}_bias_per_row"] = gain_row, grad
        record[f"grad_ln_{name}_in"] = grad_in.view(-1, s.T, s.H)
        grad_u, grad_x = _block_backward(w, s, name, block, grad_in, chunks)
        record[f"mamba_{name}_grad_u"], record[f"mamba_{name}_grad_x"] = grad_u, grad_x.view(-1, s.T, s.H)
        grad = grad_in + grad_x
    rows = CHUNK * s.T
    chunks["trunk.in_w"] = matmul_rows(f.vsn_out.view(-1, s.F), grad, rows)
    chunks["trunk.in_b"] = sum_rows(grad, rows)
    record["grad_vsn_out"] = matmul_nt(grad, w["trunk.in_w"]).view(-1, s.T, s.F)
    grad_logits = ops.vsn_bwd(f.x, f.gate, record["grad_vsn_out"]).view(-1, s.F)
    scratch["vsn_grad_w_scratch"] = matmul_rows(f.x.view(-1, s.F), grad_logits, s.T)
    scratch["vsn_grad_b_scratch"] = sum_rows(grad_logits, s.T)
    return Gradients(record, scratch, chunks)


def _block_backward(
    w: dict[str, Tensor], s: Shape, name: str, f: Block, grad_out: Tensor, chunks: dict[str, Tensor]
) -> tuple[Tensor, Tensor]:
    """Gradients of u and x; those of the block's weights are added to `chunks`."""
    m, rows = f"trunk.m{name}", CHUNK * s.T
    grad_gated = matmul_nt(grad_out, w[f"{m}_o"]).view(-1, s.T, s.H)
    chunks[f"{m}_o"] = matmul_rows(f.gated.view(-1, s.H), grad_out, rows)
    grad_u, grad_dtb, grad_alog, grad_d = recurrence.mamba_bwd(
        f.u, f.state, f.y, w[f"{m}_dtb"], w[f"{m}_alog"], w[f"{m}_d"], grad_gated
    )
    flat_u = grad_u.view(-1, s.U)
    chunks[f"{m}_u"] = matmul_rows(f.x_RH, flat_u, rows)
    for key, per_row in (("dtb", grad_dtb), ("alog", grad_alog), ("d", grad_d)):
        chunks[f"{m}_{key}"] = sum_rows(per_row, CHUNK)
    return grad_u, matmul_nt(flat_u, w[f"{m}_u"])
