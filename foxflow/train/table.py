"""The rows of the dataflow table of docs/trainer.md, one line a row:

    number | group | captured at | start > producers <- inputs | buffer dtype[axes] ...

Start: what makes the buffer at step 0, where the producers need a step before; left out where there is no such need.

Captured at: s as the step starts, e once computed, k in each iteration of the inner loop, l after that loop.
Inputs: `#12` all buffers of row 12, or a name; a minus sign after it means the step before, `~` the iteration before
(in iteration 0 the step before).
"""

from __future__ import annotations

from foxflow.agent.learner import SCRATCHES
from foxflow.agent.parameters import TARGETS, Weight, table
from foxflow.config import Shape

HEADS = ("q", "pi", "v", "iqn", "dueling", "frd", "outcome")

_TAPE = """
1 | X | s | load_tape <- | tape_book i32[n,4*L] tape_ts i64[n]
"""

_WORLD = """
7 | E | s | config > controllers <- isv- roll_pi_logits- reward_raw- done- hold_steps #2- #2 | isv f32[16]
8 | A | s | zeros > carry_update <- roll_h_t- wrap- | cfc_carry f32[B,H]
9 | C | s | splitmix > prng_advance <- act_prng_state- | act_prng_state u32[B]
9 | C | s | splitmix > prng_advance <- per_prng_state- | per_prng_state u32[B]
9 | C | s | splitmix > prng_advance <- iqn_prng_state- | iqn_prng_state u32[B]
10 | D | s | env_reset > env_step, env_wrap <- #10- tape_book action- wrap- | lob_cursor i64[B]
10 | D | s | env_reset > env_step <- #10- tape_book action- | pos i32[B] entry_ticks i32[B] cash_half_ticks i64[B] pending_action i32[B] rest_side i32[B] rest_px_ticks i32[B] rest_step i32[B] open_step i32[B] hold_steps i32[B]
11 | D | s | book_gather <- tape_book lob_cursor | lob_book i32[B,4*L]
12 | D | s | features <- #1 lob_cursor pos entry_ticks hold_steps pending_action rest_side | obs f32[B,F]
12 | D | s | window_push <- #1 lob_cursor obs obs_win- wrap- | obs_win f32[B,T,F]
13 | M | e | encoder_fwd <- obs_win cfc_carry tape_ts lob_cursor #2 | roll_h_t f32[B,H]
14 | L | e | head_fwd <- roll_h_t w_pi_w w_pi_b | roll_pi_logits f32[B,A]
15 | C | e | sample_action <- roll_pi_logits act_prng_state | action i32[B] log_pi f32[B]
16 | D | e | env_step <- tape_book #10 action | fills i32[B] done u8[B] wrap u8[B] trade_pnl_e4 i64[B] trade_open_step i32[B]
17 | F | e | env_step <- tape_book #10 action | equity_half_ticks i64[B]
17 | F | e | reward <- fills equity_half_ticks tape_book lob_cursor pos cash_half_ticks isv | reward_raw f32[B] reward_shaped f32[B]
18 | D | e | env_step, features <- #1 #10 action | obs_next f32[B,F]
19 | B | e | replay_insert <- obs_win obs_next slot_win- | slot_win f32[C,T+1,F]
19 | B | e | replay_insert <- cfc_carry slot_carry- | slot_carry f32[C,H]
19 | B | e | replay_insert <- tape_ts lob_cursor slot_dt- | slot_dt f32[C,2]
19 | B | e | replay_insert <- action slot_action- | slot_action i32[C]
19 | B | e | replay_insert <- reward_shaped slot_reward- | slot_reward f32[C]
19 | B | e | replay_insert <- done wrap slot_done- | slot_done u8[C]
19 | B | e | replay_insert <- log_pi slot_log_pi- | slot_log_pi f32[C]
19 | B | e | frd_labels, replay_insert <- tape_book lob_cursor slot_frd- | slot_frd i32[C,3]
20 | B | e | assign_labels <- done trade_pnl_e4 trade_open_step slot_outcome- | slot_outcome i32[C]
21 | B | l | replay_insert <- per_head- | per_head i64[]
21 | B | l | replay_insert <- per_len- | per_len i64[]
21 | B | l | per_update <- per_max_prio- row_loss_q | per_max_prio f32[]
"""

_DRAW = """
22 | B | k | replay_insert, per_update <- per_leaf~ row_loss_q~ per_idx~ per_max_prio- | per_leaf f32[C]
22 | B | k | per_rebuild <- per_leaf | per_tree f32[C]
9 | C | k | prng_advance <- per_prng_state~ | per_prng_state u32[B]
23 | B | k | per_sample <- #22 per_prng_state isv per_len | per_idx i32[B] per_is_weight f32[B]
24 | G | k | replay_gather <- slot_action per_idx | sampled_actions i32[B]
24 | G | k | replay_gather <- slot_reward per_idx | sampled_rewards f32[B]
24 | G | k | replay_gather <- slot_done per_idx | sampled_dones u8[B]
24 | G | k | replay_gather <- slot_log_pi per_idx | sampled_log_pi_old f32[B]
25 | L | k | replay_gather <- slot_win per_idx | sampled_win f32[B,T+1,F]
25 | L | k | replay_gather <- slot_carry per_idx | sampled_carry f32[B,H]
25 | L | k | replay_gather <- slot_dt per_idx | sampled_dt f32[B,2]
25 | L | k | replay_gather <- slot_frd per_idx | frd_labels i32[B,3]
26 | K | k | replay_gather <- slot_outcome per_idx | outcome_labels i32[B]
"""

_BLOCK_FORWARD = """
28 | M | k | matmul <- {x} w_trunk.m{n}_u | mamba_{n}_u f32[B,T,U]
28 | M | k | mamba_fwd <- mamba_{n}_u w_trunk.m{n}_dtb w_trunk.m{n}_alog w_trunk.m{n}_d | mamba_{n}_state f32[B,T,M,N,P] mamba_{n}_y f32[B,T,H]
28 | M | k | mamba_fwd, matmul <- mamba_{n}_u w_trunk.m{n}_dtb w_trunk.m{n}_alog w_trunk.m{n}_d w_trunk.m{n}_o | mamba_{n}_out f32[B,T,H]
28 | M | k | layer_norm_fwd <- {x} mamba_{n}_out w_trunk.ln_{n}_gain w_trunk.ln_{n}_bias | ln_{n}_out f32[B,T,H]
"""

_FORWARD = f"""
27 | M | k | vsn_fwd <- sampled_win w_trunk.vsn_w w_trunk.vsn_b | vsn_gate f32[B,T,F] vsn_out f32[B,T,F]
27 | M | k | matmul <- vsn_out w_trunk.in_w w_trunk.in_b | enc_in f32[B,T,H]
{_BLOCK_FORWARD.format(n="a", x="enc_in").strip()}
{_BLOCK_FORWARD.format(n="b", x="ln_a_out").strip()}
29 | M | k | attention_fwd <- ln_b_out w_trunk.attn_q | attn_alpha f32[B,T] attn_ctx f32[B,H]
29 | M | k | cfc_fwd <- attn_ctx sampled_carry sampled_dt w_trunk.cfc_w_in w_trunk.cfc_w_rec w_trunk.cfc_b w_trunk.cfc_tau | cfc_cand f32[B,H] cfc_decay f32[B,H]
30 | G | k | cfc_fwd <- attn_ctx sampled_carry sampled_dt w_trunk.cfc_w_in w_trunk.cfc_w_rec w_trunk.cfc_b w_trunk.cfc_tau | sampled_h_t f32[B,H]
30 | G | k | encoder_fwd <- sampled_win enc_in mamba_a_u sampled_h_t sampled_dt #2 | sampled_h_tp1 f32[B,H]
31 | H | k | head_fwd <- sampled_h_t w_q_w w_q_b | q_logits f32[B,A,Z]
31 | H | k | head_fwd <- sampled_h_t w_pi_w w_pi_b | pi_logits f32[B,A]
31 | H | k | head_fwd <- sampled_h_t w_v_w w_v_b | v_pred f32[B]
31 | H | k | head_fwd <- sampled_h_t w_dueling.v_w w_dueling.v_b w_dueling.a_w w_dueling.a_b | dueling_q_composed f32[B,A]
9 | C | k | prng_advance <- iqn_prng_state~ | iqn_prng_state u32[B]
32 | M | k | iqn_tau_cos <- iqn_prng_state | iqn_tau f32[B,Q] iqn_cos f32[B,Q,E] iqn_tau_target f32[B,Q] iqn_cos_target f32[B,Q,E]
33 | H | k | iqn_fwd <- sampled_h_t iqn_cos w_iqn.e_w w_iqn.e_b w_iqn.o_w w_iqn.o_b | iqn_q_values f32[B,Q,A]
34 | L | k | head_fwd <- sampled_h_t w_frd_w w_frd_b | frd_logits f32[B,3,Y]
34 | L | k | head_fwd <- sampled_h_t outcome_w outcome_b | outcome_logits f32[B,3]
35 | L | k | target_fwd <- sampled_h_tp1 iqn_cos_target wt_iqn.e_w wt_iqn.e_b wt_iqn.o_w wt_iqn.o_b | iqn_q_target f32[B,Q,A]
35 | L | k | target_fwd <- sampled_h_tp1 wt_q_w wt_q_b sampled_rewards sampled_dones isv | q_target_dist f32[B,Z]
35 | L | k | target_fwd <- sampled_h_tp1 wt_v_w wt_v_b sampled_rewards sampled_dones isv | v_target f32[B]
35 | L | k | target_fwd <- iqn_q_target sampled_rewards sampled_dones isv | iqn_target f32[B,Q]
35 | L | k | target_fwd <- sampled_h_tp1 wt_dueling.v_w wt_dueling.v_b wt_dueling.a_w wt_dueling.a_b sampled_rewards sampled_dones isv | dueling_target f32[B]
35 | L | k | advantage <- v_target v_pred | advantage f32[B]
"""

_LOSSES = """
36 | L | k | q_loss <- q_logits q_target_dist sampled_actions per_is_weight | row_loss_q f32[B] grad_logits_q f32[B,A,Z]
36 | L | k | pi_loss <- pi_logits advantage sampled_actions sampled_log_pi_old isv | row_loss_pi f32[B] grad_logits_pi f32[B,A]
36 | L | k | v_loss <- v_pred v_target | row_loss_v f32[B] grad_logits_v f32[B]
36 | L | k | iqn_loss <- iqn_q_values iqn_tau iqn_target sampled_actions per_is_weight | row_loss_iqn f32[B] grad_logits_iqn f32[B,Q,A]
36 | L | k | dueling_loss <- dueling_q_composed dueling_target sampled_actions per_is_weight | row_loss_dueling f32[B] grad_logits_dueling f32[B,A]
36 | L | k | frd_loss <- frd_logits frd_labels | row_loss_frd f32[B] grad_logits_frd f32[B,3,Y]
36 | L | k | outcome_loss <- outcome_logits outcome_labels | row_loss_outcome f32[B] grad_logits_outcome f32[B,3]
37 | J | k | head_bwd <- grad_logits_q w_q_w | grad_h_t_q f32[B,H]
37 | J | k | head_bwd <- grad_logits_pi w_pi_w | grad_h_t_pi f32[B,H]
37 | J | k | head_bwd <- grad_logits_v w_v_w | grad_h_t_v f32[B,H]
37 | J | k | head_bwd <- grad_logits_frd w_frd_w | grad_h_t_frd f32[B,H]
37 | J | k | head_bwd <- grad_logits_outcome outcome_w | grad_h_t_outcome f32[B,H]
"""

_DRIVE = "grad_h_t_combined cfc_cand cfc_decay sampled_carry sampled_dt w_trunk.cfc_tau"
"""What the gradient of the CfC cell's drive is made from."""
_POOLED = "grad_attn_ctx ln_b_out attn_alpha w_trunk.attn_q"
_NORM_A = "grad_ln_b_in mamba_b_grad_x enc_in mamba_a_out w_trunk.ln_a_gain w_trunk.ln_a_bias"
_NORM_B = f"{_POOLED} ln_a_out mamba_b_out w_trunk.ln_b_gain w_trunk.ln_b_bias"
_SCAN = "grad_ln_{n}_in mamba_{n}_u mamba_{n}_state mamba_{n}_y w_trunk.m{n}_o w_trunk.m{n}_dtb w_trunk.m{n}_alog w_trunk.m{n}_d"

_BACKWARD = f"""
38 | J | k | combine <- grad_h_t_q grad_h_t_pi grad_h_t_v grad_h_t_frd grad_h_t_outcome | grad_h_t_combined f32[B,H]
39 | M | k | cfc_bwd, matmul <- {_DRIVE} w_trunk.cfc_w_in | grad_attn_ctx f32[B,H]
39 | M | k | attention_bwd, layer_norm_bwd <- {_NORM_B} | grad_ln_b_in f32[B,T,H]
39 | M | k | mamba_bwd, matmul <- {_SCAN.format(n="b")} | mamba_b_grad_u f32[B,T,U]
39 | M | k | matmul <- mamba_b_grad_u w_trunk.mb_u | mamba_b_grad_x f32[B,T,H]
39 | M | k | layer_norm_bwd <- {_NORM_A} | grad_ln_a_in f32[B,T,H]
39 | M | k | mamba_bwd, matmul <- {_SCAN.format(n="a")} | mamba_a_grad_u f32[B,T,U]
39 | M | k | matmul <- mamba_a_grad_u w_trunk.ma_u | mamba_a_grad_x f32[B,T,H]
39 | M | k | matmul <- grad_ln_a_in mamba_a_grad_x w_trunk.in_w | grad_vsn_out f32[B,T,F]
40 | I | l | cfc_bwd <- {_DRIVE} attn_ctx | cfc_grad_w_in_scratch f32[B,H,H]
40 | I | l | cfc_bwd <- {_DRIVE} | cfc_grad_w_rec_scratch f32[B,H,H] cfc_grad_b_scratch f32[B,H] cfc_grad_tau_scratch f32[B,H]
40 | I | l | vsn_bwd <- grad_vsn_out sampled_win vsn_gate | vsn_grad_w_scratch f32[B,F,F] vsn_grad_b_scratch f32[B,F]
40 | I | l | attention_bwd <- {_POOLED} | attn_grad_q_scratch f32[B,H]
40 | I | l | layer_norm_bwd <- {_NORM_A} | grad_ln_a_gain_per_row f32[B*T,H]
40 | I | l | layer_norm_bwd <- grad_ln_b_in mamba_b_grad_x | grad_ln_a_bias_per_row f32[B*T,H]
40 | I | l | layer_norm_bwd <- {_NORM_B} | grad_ln_b_gain_per_row f32[B*T,H]
40 | I | l | layer_norm_bwd <- {_POOLED} | grad_ln_b_bias_per_row f32[B*T,H]
"""

_LEARN = """
43 | R | l | group_norm <- #41 #42 | grad_norm f32[8]
43 | R | l | mean_loss <- row_loss_q per_is_weight | loss_q f32[]
43 | R | l | mean_loss <- row_loss_pi | loss_pi f32[]
43 | R | l | mean_loss <- row_loss_v | loss_v f32[]
43 | R | l | mean_loss <- row_loss_iqn per_is_weight | loss_iqn f32[]
43 | R | l | mean_loss <- row_loss_dueling per_is_weight | loss_dueling f32[]
43 | R | l | mean_loss <- row_loss_frd | loss_frd f32[]
43 | R | l | mean_loss <- row_loss_outcome outcome_labels | loss_outcome f32[]
43 | R | l | mean_loss <- loss_q loss_pi loss_v loss_iqn loss_dueling loss_frd loss_outcome | loss_total f32[]
"""


def weight_name(key: str) -> str:
    """The buffer of a weight: `w_trunk.vsn_w`, `w_q_w`, `outcome_w`."""
    return key if key.startswith("outcome") else f"w_{key}"


def target_name(key: str) -> str:
    """The buffer of a weight's slowly following copy: `wt_q_w`."""
    return f"wt_{key}"


def gradient_name(key: str) -> str:
    """The buffer of a weight's reduced gradient: `grad_vsn_w`, `grad_q_w`."""
    return f"grad_{key.removeprefix('trunk.')}"


def lines(shape: Shape) -> tuple[str, ...]:
    """Every row, in the order in which a step captures it; rows of the inner loop once."""
    weights = table(shape)
    adam = [line for w in weights for line in _moments(w)]
    text = [
        _TAPE,
        *(_weight(w) for w in weights),
        *(_target(w) for w in weights if w.group in TARGETS),
        *adam,
        "6 | O | s | ones > adam <- adam_beta- | adam_beta f32[2]",
        _WORLD,
        _DRAW,
        _FORWARD,
        _LOSSES,
        _BACKWARD,
        *(_gradient(w) for w in weights),
        _LEARN,
    ]
    return tuple(line for part in text for line in part.strip().splitlines())


def _axes(w: Weight) -> str:
    return f"f32[{','.join(map(str, w.shape))}]"


def _weight(w: Weight) -> str:
    name, row = weight_name(w.key), {"trunk": "2 | W", "outcome": "4 | K"}.get(w.group, "3 | W")
    init = {"trunk": "init_trunk", "outcome": "init_outcome"}.get(w.group, "init_head")
    learnt = f"{gradient_name(w.key)}- adam_m.{w.key}- adam_v.{w.key}- adam_beta- grad_norm- isv- {name}-"
    return f"{row} | s | {init} > adam <- {learnt} | {name} {_axes(w)}"


def _target(w: Weight) -> str:
    name = target_name(w.key)
    return f"5 | W | s | copy > polyak <- {weight_name(w.key)} {name}- | {name} {_axes(w)}"


def _moments(w: Weight) -> tuple[str, ...]:
    learnt = f"{gradient_name(w.key)}- grad_norm-"
    return tuple(
        f"6 | O | s | zeros > adam <- {learnt} {m}.{w.key}- | {m}.{w.key} {_axes(w)}" for m in ("adam_m", "adam_v")
    )


_REDUCED = {key: scratch for scratch, key in SCRATCHES.items()}
"""Weights whose gradient is reduced from a scratch of group I -> that scratch."""

_SUMMED = {
    "in": "vsn_out grad_ln_a_in mamba_a_grad_x",
    **{
        key.format(n=n): inputs.format(n=n, x=x)
        for n, x in (("a", "enc_in"), ("b", "ln_a_out"))
        for key, inputs in (
            ("m{n}_u", "{x} mamba_{n}_grad_u"),
            ("m{n}_o", "mamba_{n}_u w_trunk.m{n}_dtb w_trunk.m{n}_alog w_trunk.m{n}_d grad_ln_{n}_in"),
            ("m{n}", _SCAN),
        )
    },
    "iqn.o": "iqn_cos w_iqn.e_w w_iqn.e_b sampled_h_t grad_logits_iqn",
    "iqn.e": "iqn_cos w_iqn.e_w w_iqn.e_b w_iqn.o_w sampled_h_t grad_logits_iqn",
}
"""Start of a key -> what its matrix gradient is summed from; the other heads read their logits' gradient and h."""


def _gradient(w: Weight) -> str:
    key = w.key.removeprefix("trunk.")
    if w.key in _REDUCED:
        return f"42 | R | l | reduce_rows <- {_REDUCED[w.key]} | {gradient_name(w.key)} {_axes(w)}"
    summed = next((inputs for start, inputs in _SUMMED.items() if key.startswith(start)), None)
    inputs = summed or f"grad_logits_{w.group} sampled_h_t"
    kernel = "matmul" if w.group == "trunk" else "head_bwd"
    return f"41 | R | l | {kernel} <- {inputs} | {gradient_name(w.key)} {_axes(w)}"
