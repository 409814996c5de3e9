"""The trunk, backward by hand: from the gradient of `h` to a row a batch row for each weight, or a sum a chunk.

None goes into the carry or the features. Scratches are named as the record names them, chunk sums by weight key.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor

from foxflow.agent.seams import Specimens, row_products, sums
from foxflow.agent.stage import Named, Stage
from foxflow.config import CHUNK, Shape
from foxflow.ops import encoder as ops
from foxflow.ops import recurrence
from foxflow.ops.linalg import matmul_nt, matmul_rows, sum_rows


def _cell(w: Named, _s: Shape, x: Named) -> tuple[Tensor, ...]:
    """The gradient of the cell's drive, which is the rows of its bias, and the rows of tau."""
    states = (x["cfc_cand"], x["cfc_decay"], x["carry"], x["dt"])
    return recurrence.cfc_bwd(*states, w["trunk.cfc_tau"], x["grad_h_t_combined"])


def _attn_ctx(w: Named, _s: Shape, x: Named) -> tuple[Tensor, ...]:
    return (matmul_nt(x["cfc_grad_b_scratch"], w["trunk.cfc_w_in"]),)


def _attention(w: Named, s: Shape, x: Named) -> tuple[Tensor, ...]:
    """The gradient of the pooled rows, which is the rows of the norm's bias, and the rows of q."""
    grad, grad_q = ops.attention_bwd(x["ln_b_out"], w["trunk.attn_q"], x["attn_alpha"], x["grad_attn_ctx"])
    return grad.view(-1, s.H), grad_q


def _past_b(_w: Named, s: Shape, x: Named) -> tuple[Tensor, ...]:
    return ((x["grad_ln_b_in"] + x["mamba_b_grad_x"]).view(-1, s.H),)


def _past_a(_w: Named, s: Shape, x: Named) -> tuple[Tensor, ...]:
    return ((x["grad_ln_a_in"] + x["mamba_a_grad_x"]).view(-1, s.H),)


def _in_weights(_w: Named, s: Shape, x: Named, specimens: Specimens) -> tuple[Tensor, ...]:
    rows, grad = CHUNK * s.T, x["grad_enc_in"]
    return row_products(x["vsn_out"].view(-1, s.F), grad, rows, specimens), sums(grad, rows, specimens)


def _vsn_out(w: Named, s: Shape, x: Named) -> tuple[Tensor, ...]:
    return (matmul_nt(x["grad_enc_in"], w["trunk.in_w"]).view(-1, s.T, s.F),)


def _vsn_weights(_w: Named, s: Shape, x: Named) -> tuple[Tensor, ...]:
    logits = ops.vsn_bwd(x["window"], x["vsn_gate"], x["grad_vsn_out"]).view(-1, s.F)
    return matmul_rows(x["window"].view(-1, s.F), logits, s.T), sum_rows(logits, s.T)


def _block(name: str, entry: str, specimens: Specimens) -> tuple[Stage, ...]:
    """A layer norm and its Mamba-2 block; the bias rows of the norm are the gradient that comes in."""
    mamba, norm, m = f"mamba_{name}", f"ln_{name}", f"trunk.m{name}"

    def normalised(w: Named, s: Shape, x: Named) -> tuple[Tensor, ...]:
        saved, grad = (x[f"{norm}_norm"], x[f"{norm}_rstd"]), x[f"grad_{norm}_bias_per_row"]
        grad_in, gain_rows = ops.layer_norm_bwd(*saved, w[f"trunk.{norm}_gain"], grad)
        return grad_in.view(-1, s.T, s.H), gain_rows

    def gated(w: Named, s: Shape, x: Named) -> tuple[Tensor, ...]:
        return (matmul_nt(x[f"grad_{norm}_in"].view(-1, s.H), w[f"{m}_o"]).view(-1, s.T, s.H),)

    def scan(w: Named, _s: Shape, x: Named) -> tuple[Tensor, ...]:
        states = (x[f"{mamba}_u"], x[f"{mamba}_state"], x[f"{mamba}_y"])
        return recurrence.mamba_bwd(*states, w[f"{m}_dtb"], w[f"{m}_alog"], w[f"{m}_d"], x[f"{mamba}_grad_gated"])

    def entered(w: Named, s: Shape, x: Named) -> tuple[Tensor, ...]:
        return (matmul_nt(x[f"{mamba}_grad_u"].view(-1, s.U), w[f"{m}_u"]).view(-1, s.T, s.H),)

    def out_weights(_w: Named, s: Shape, x: Named) -> tuple[Tensor, ...]:
        rows = (x[f"{mamba}_gated"].view(-1, s.H), x[f"grad_{norm}_in"].view(-1, s.H))
        return (matmul_rows(*rows, CHUNK * s.T),)

    def in_weights(_w: Named, s: Shape, x: Named) -> tuple[Tensor, ...]:
        return (matmul_rows(x[entry].view(-1, s.H), x[f"{mamba}_grad_u"].view(-1, s.U), CHUNK * s.T),)

    def head_weights(_w: Named, _s: Shape, x: Named) -> tuple[Tensor, ...]:
        return tuple(sums(x[f"{mamba}_{part}_rows"], CHUNK, specimens) for part in ("dtb", "alog", "d"))

    return (
        Stage((f"grad_{norm}_in", f"grad_{norm}_gain_per_row"), normalised),
        Stage((f"{mamba}_grad_gated",), gated),
        Stage((f"{mamba}_grad_u", *(f"{mamba}_{part}_rows" for part in ("dtb", "alog", "d"))), scan),
        Stage((f"{mamba}_grad_x",), entered),
        Stage((f"{m}_o",), out_weights, aside=True),
        Stage((f"{m}_u",), in_weights, aside=True),
        Stage((f"{m}_dtb", f"{m}_alog", f"{m}_d"), head_weights, aside=True),
    )


OUTER = {
    "cfc_grad_w_in_scratch": ("attn_ctx", "cfc_grad_b_scratch"),
    "cfc_grad_w_rec_scratch": ("carry", "cfc_grad_b_scratch"),
}
"""Scratches that are outer products -> of what; too large to be made, or added to, in each iteration."""


def trunk(specimens: Specimens) -> tuple[Stage, ...]:
    """From `grad_h_t_combined` and what `encoder.LEARNS` left behind."""
    return (
        Stage(("cfc_grad_b_scratch", "cfc_grad_tau_scratch"), _cell),
        Stage(("grad_attn_ctx",), _attn_ctx),
        Stage(("grad_ln_b_bias_per_row", "attn_grad_q_scratch"), _attention),
        *_block("b", "ln_a_out", specimens),
        Stage(("grad_ln_a_bias_per_row",), _past_b),
        *_block("a", "enc_in", specimens),
        Stage(("grad_enc_in",), _past_a),
        Stage(("trunk.in_w", "trunk.in_b"), partial(_in_weights, specimens=specimens), aside=True),
        Stage(("grad_vsn_out",), _vsn_out),
        Stage(("vsn_grad_w_scratch", "vsn_grad_b_scratch"), _vsn_weights),
    )
