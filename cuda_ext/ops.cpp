// Every schema of the module, and its init; no arithmetic. The rule of each op stands above it.
//
// Axes: B environments or batch rows, T window, L book levels, F features, H hidden, U Mamba-2 projection
// (2H + 2N + M), M heads, N state, P head size, A actions, Z atoms, Q quantiles, E cosines, Y return bins,
// C replay slots, R rows of any kind, W weights of all groups laid end to end, G gradient groups.
// Every sum is ascending from +0; over batch rows it is ascending inside chunks, then over chunks.
#include <Python.h>
#include <torch/csrc/stable/library.h>

STABLE_TORCH_LIBRARY(foxflow, m) {
  // --- linalg
  // out[m,n] = sum over k of a[m,k] b[k,n], then + bias[n].
  m.def("matmul(Tensor a_MK, Tensor b_KN, Tensor? bias_N) -> Tensor");
  // out[m,n] = sum over k of a[m,k] b[n,k].
  m.def("matmul_nt(Tensor a_MK, Tensor b_NK) -> Tensor");
  // out[c,m,n] = sum over the rows r of chunk c of a[r,m] b[r,n].
  m.def("matmul_rows(Tensor a_RM, Tensor b_RN, int chunk_rows) -> Tensor");
  // out[c,n] = sum over the rows r of chunk c of a[r,n]. With chunk_rows >= R it sums chunks (or anything) to one row.
  m.def("sum_rows(Tensor a_RN, int chunk_rows) -> Tensor");
  // All rows of each part summed to one, and these end to end. At most 64 parts.
  m.def("total_rows(Tensor(a!) out_N, Tensor[] parts) -> ()");
  // Each sum plus what is fresh of it, element by element; to begin with, 0 plus what is fresh. At most 64 at once.
  m.def("accumulate(Tensor(a!)[] sums, Tensor[] fresh, bool begin) -> ()");
  // sum[r,m,n], or 0 to begin with, plus a[r,m] b[r,n] of each pass, one after another. At most 8 passes.
  m.def("accumulate_outer(Tensor(a!) sum_RMN, Tensor[] a_RM, Tensor[] b_RN, bool begin) -> ()");

  // Element by element, which = 0 exp, 1 log, 2 log1p, 3 tanh, 4 sigmoid, 5 softplus, 6 sin, 7 cos of portable.h.
  m.def("portable(Tensor x, int which) -> Tensor");
  // exp(y log x).
  m.def("portable_pow(Tensor x, Tensor y) -> Tensor");

  // --- digest
  // Adds the two lane sums of fx1 of each buffer to int64 [buffers, 2].
  m.def("digest(Tensor(a!) sums, Tensor[] buffers) -> ()");
  // Adds those of part `step mod turns` of the `turns` equal parts of each buffer, at its own position, or takes them away.
  m.def("digest_turn(Tensor(a!) sums, Tensor[] buffers, Tensor step, int turns, bool away) -> ()");

  // --- encoder
  // l = x W + b; gate = softmax(l); out = F * gate * x.
  m.def("vsn_fwd(Tensor x_BTF, Tensor w_FF, Tensor b_F) -> (Tensor gate_BTF, Tensor out_BTF)");
  // dg = F x dout; dl = gate (dg - sum(gate dg)).
  m.def("vsn_bwd(Tensor x_BTF, Tensor gate_BTF, Tensor grad_out_BTF) -> Tensor grad_logits_BTF");
  // u = [z H | x M,P | B N | C N | delta M]; D = softplus(delta + dt_bias); a = exp(-D e^a_log);
  // S_t = a S_{t-1} + D B x^T; y = C^T S_t + d x; gated = y silu(z). Kept are K = T / every states, S_{every-1} the first.
  m.def("mamba_fwd(Tensor u_BTU, Tensor dt_bias_M, Tensor a_log_M, Tensor d_M, int state_size, int every)"
        " -> (Tensor state_BKMNP, Tensor y_BTH, Tensor gated_BTH)");
  m.def("mamba_bwd(Tensor u_BTU, Tensor state_BKMNP, Tensor y_BTH, Tensor dt_bias_M, Tensor a_log_M, Tensor d_M,"
        " Tensor grad_gated_BTH) -> (Tensor grad_u_BTU, Tensor grad_dt_bias_BM, Tensor grad_a_log_BM, Tensor grad_d_BM)");
  // out = gain * norm + bias, norm = (s - mean) / std, s = x + residual; two passes over H; eps 1e-5.
  m.def("layer_norm_fwd(Tensor x_RH, Tensor residual_RH, Tensor gain_H, Tensor bias_H)"
        " -> (Tensor out_RH, Tensor norm_RH, Tensor rstd_R)");
  // The gradient of x, which is the residual's too, and one row of gain's gradient per row (bias': grad_out itself).
  m.def("layer_norm_bwd(Tensor norm_RH, Tensor rstd_R, Tensor gain_H, Tensor grad_out_RH)"
        " -> (Tensor grad_x_RH, Tensor grad_gain_RH)");
  // s_t = q e_t / sqrt(H); alpha = softmax over t; context = sum_t alpha_t e_t.
  m.def("attention_fwd(Tensor e_BTH, Tensor q_H) -> (Tensor alpha_BT, Tensor context_BH)");
  m.def("attention_bwd(Tensor e_BTH, Tensor q_H, Tensor alpha_BT, Tensor grad_context_BH)"
        " -> (Tensor grad_e_BTH, Tensor grad_q_BH)");
  // candidate = tanh(drive_in + drive_rec + b); decay = exp(-dt / tau); h = candidate + (h_prev - candidate) decay.
  m.def("cfc_fwd(Tensor drive_in_BH, Tensor drive_rec_BH, Tensor b_H, Tensor h_prev_BH, Tensor dt_B, Tensor tau_H)"
        " -> (Tensor candidate_BH, Tensor decay_BH, Tensor h_BH)");
  // The gradient of the drive (of b, and of w_in and w_rec by an outer product) and of tau, a row each.
  m.def("cfc_bwd(Tensor candidate_BH, Tensor decay_BH, Tensor h_prev_BH, Tensor dt_B, Tensor tau_H, Tensor grad_h_BH)"
        " -> (Tensor grad_drive_BH, Tensor grad_tau_BH)");

  // --- heads
  // u = ((x >> 9) + 1/2) 2^-23, x one xorshift32 step of prng[b]; inverse CDF of softmax, ascending; last index on a gap.
  m.def("sample_action(Tensor logits_BA, Tensor prng_B) -> (Tensor action_B, Tensor log_pi_B)");
  // The largest logit, the lowest index on ties.
  m.def("greedy_action(Tensor logits_BA) -> Tensor action_B");
  // prng[b] advanced by `times` xorshift32 steps (13, 17, 5); sole writer of each b.
  m.def("prng_advance(Tensor(a!) prng_B, int times) -> ()");
  // x = fmix32(prng[b] + 0x9E3779B9 (i+1)); tau = ((x >> 9) + 1/2) 2^-23; cos_e = cos(pi e tau), reduced in integers.
  m.def("iqn_tau_cos(Tensor prng_B, int quantiles, int cosines) -> (Tensor tau_BQ, Tensor cos_BQE)");
  // out = h relu(pre), h repeated over Q.
  m.def("iqn_mix_fwd(Tensor pre_BQH, Tensor h_BH) -> Tensor");
  // grad_pre = grad_out h [pre > 0]; no gradient into h.
  m.def("iqn_mix_bwd(Tensor pre_BQH, Tensor h_BH, Tensor grad_out_BQH) -> Tensor");
  // composed = V + A - mean(A).
  m.def("dueling_compose(Tensor v_B1, Tensor a_BA) -> Tensor");
  // grad_v = sum(grad); grad_a = grad - grad_v / A.
  m.def("dueling_split(Tensor grad_BA) -> (Tensor grad_v_B1, Tensor grad_a_BA)");
  // Projection of r + gamma (1-d) z of the greedy action's distribution onto Z atoms on [-2, 2].
  m.def("c51_target(Tensor logits_BAZ, Tensor reward_B, Tensor done_B, Tensor isv) -> Tensor target_BZ");
  // r + gamma (1-d) v.
  m.def("v_target(Tensor v_B1, Tensor reward_B, Tensor done_B, Tensor isv) -> Tensor target_B");
  // y_j = r + gamma (1-d) q_j[a], a greedy by the mean over Q.
  m.def("iqn_target(Tensor q_BQA, Tensor reward_B, Tensor done_B, Tensor isv) -> Tensor target_BQ");
  // r + gamma (1-d) max q.
  m.def("dueling_target(Tensor q_BA, Tensor reward_B, Tensor done_B, Tensor isv) -> Tensor target_B");
  // Losses give the loss of each row before importance weights and before the mean, and d(mean weighted loss)/d(output).
  m.def("c51_loss(Tensor logits_BAZ, Tensor target_BZ, Tensor action_B, Tensor weight_B) -> (Tensor row_loss_B, Tensor grad_BAZ)");
  m.def("pi_loss(Tensor logits_BA, Tensor action_B, Tensor log_pi_old_B, Tensor advantage_B, Tensor isv)"
        " -> (Tensor row_loss_B, Tensor grad_BA)");
  m.def("v_loss(Tensor v_B1, Tensor target_B) -> (Tensor row_loss_B, Tensor grad_B1)");
  m.def("iqn_loss(Tensor q_BQA, Tensor tau_BQ, Tensor target_BQ, Tensor action_B, Tensor weight_B)"
        " -> (Tensor row_loss_B, Tensor grad_BQA)");
  m.def("dueling_loss(Tensor q_BA, Tensor target_B, Tensor action_B, Tensor weight_B) -> (Tensor row_loss_B, Tensor grad_BA)");
  // Mean cross-entropy over the horizons; a label of -1 is skipped and its logits get +0.
  m.def("frd_loss(Tensor logits_BSY, Tensor label_BS) -> (Tensor row_loss_B, Tensor grad_BSY)");
  // Cross-entropy; rows labelled -1 give +0 and the mean is over the labelled rows, at least 1.
  m.def("outcome_loss(Tensor logits_BO, Tensor label_B) -> (Tensor row_loss_B, Tensor grad_BO)");

  // --- world (integer ticks, half-ticks and 1e-4 USD; see foxflow/market)
  // The book of each environment's row.
  m.def("book_gather(Tensor tape_book, Tensor cursor_B) -> Tensor book_BK");
  // Features of each environment's row (F = 4L + 16) and the seconds since the row before, in [1e-3, 10].
  m.def("features(Tensor tape_book, Tensor tape_ts, Tensor tape_moved, Tensor tape_day_ns, int begin, int end,"
        " Tensor cursor_B, Tensor pos_B, Tensor entry_ticks_B, Tensor hold_steps_B, Tensor pending_B, Tensor rest_side_B)"
        " -> (Tensor obs_BF, Tensor dt_B)");
  // window shifted by one and obs appended; where fresh[b], rebuilt from the tape with flat position features.
  m.def("window_push(Tensor(a!) window_BTF, Tensor obs_BF, Tensor fresh_B, Tensor tape_book, Tensor tape_ts,"
        " Tensor tape_moved, Tensor tape_day_ns, int begin, int end, Tensor cursor_B) -> ()");
  // One row further: resting order, arriving order, the new action in flight, money; forced flat at row end - 1.
  m.def("env_step(Tensor tape_book, int end, Tensor step, int tick_value_e4, int fee_e4, Tensor action_B, Tensor(a!) cursor_B,"
        " Tensor(b!) pos_B, Tensor(c!) entry_ticks_B, Tensor(d!) cash_half_ticks_B, Tensor(e!) pending_B, Tensor(f!) rest_side_B,"
        " Tensor(g!) rest_px_ticks_B, Tensor(h!) rest_step_B, Tensor(i!) open_step_B, Tensor(j!) hold_steps_B)"
        " -> (Tensor fills_B, Tensor done_B, Tensor wrap_B, Tensor trade_pnl_e4_B, Tensor trade_open_step_B,"
        " Tensor equity_half_ticks_B, Tensor equity_delta_B)");
  // raw = equity_delta / 2 - fees in ticks; shaped = clip(reward_scale raw, +-1).
  m.def("reward(Tensor equity_delta_B, Tensor fills_B, Tensor isv, int tick_value_e4, int fee_e4)"
        " -> (Tensor reward_raw_B, Tensor reward_shaped_B)");
  // Where wrap[b], the cursor restarts at `start`.
  m.def("env_wrap(Tensor(a!) cursor_B, Tensor wrap_B, int start) -> ()");
  // The carry of the next step: h, or 0 where wrap[b].
  m.def("carry_update(Tensor(a!) carry_BH, Tensor h_BH, Tensor wrap_B) -> ()");
  // Bins of the mid's move over each horizon, [-10, 10] ticks -> 0..20, -1 past `end`.
  m.def("frd_labels(Tensor tape_book, int end, Tensor cursor_B, int[] horizons) -> Tensor label_BS");

  // --- replay; the slots of a step are those of turn `step mod (C / B)`, B each
  // The step's rows into each of up to 16 rings, byte by byte.
  m.def("ring_insert(Tensor(a!)[] rings, Tensor[] rows, Tensor step) -> ()");
  // The step's slots get the new leaf max_prio^0.6; leaf C + s, root 1.
  m.def("per_insert(Tensor(a!) leaf_C, Tensor step, int rows, Tensor max_prio) -> ()");
  // p = row_loss + 1e-6; leaf = p^0.6; max_prio = the largest p so far. Rows with one slot: the lowest b writes.
  m.def("per_update(Tensor(a!) leaf_C, Tensor(b!) max_prio, Tensor idx_B, Tensor row_loss_B) -> ()");
  // Inner nodes, all levels bottom-up: parent = left + right; node i of [C] has children 2i, 2i+1; node 0 is unused.
  m.def("per_rebuild(Tensor leaf_C, Tensor(a!) tree_C) -> ()");
  // u = (b + xi) / B * root; left if u < left or right == 0, else u -= left; weight = (len leaf / root)^-beta / max.
  m.def("per_sample(Tensor leaf_C, Tensor tree_C, Tensor prng_B, Tensor isv, Tensor len) -> (Tensor idx_B, Tensor weight_B)");
  // Where done[b], the outcome class of the closed trade in slots (s B + b) mod C of its steps still in the ring.
  m.def("assign_labels(Tensor(a!) slot_outcome_C, Tensor step, Tensor done_B, Tensor trade_pnl_e4_B, Tensor trade_open_step_B) -> ()");

  // --- learn
  // sqrt of the sum of squares of each group: chunks of 256 elements of [offset_g, offset_{g+1}), then chunk sums.
  m.def("group_norm(Tensor x_W, int[] offsets) -> Tensor norm_G");
  // One Adam step in the order of operations of docs; gradient scaled by 1 / norm of its group where that is > 1.
  m.def("adam(Tensor(a!) w_W, Tensor grad_W, Tensor(b!) m_W, Tensor(c!) v_W, Tensor(d!) beta_2, Tensor norm_G, int[] offsets, Tensor isv)"
        " -> ()");
  // target = 0.995 target + 0.005 source, products and sum rounded apart.
  m.def("polyak(Tensor(a!) target, Tensor source) -> ()");
  // Mean over rows of loss * weight (weight optional); divided by `rows` (or by the labels >= 0, at least 1, where given).
  m.def("mean_loss(Tensor row_loss_B, Tensor? weight_B, Tensor? label_B) -> Tensor");
  // The next isv from this step's observations.
  m.def("controllers(Tensor(a!) isv, Tensor pi_logits_BA, Tensor reward_raw_B, Tensor done_B, Tensor hold_steps_B,"
        " Tensor norm_delta, Tensor norm_weights, Tensor step, int steps) -> ()");

  // --- specimens: real bugs, switched on by `foxflow run --specimen`; none runs otherwise
  // iqn_tau_cos and prng_advance in one kernel: threads read the states that others are storing.
  m.def("iqn_race(Tensor(a!) prng_B, int quantiles, int cosines, int times) -> (Tensor tau_BQ, Tensor cos_BQE)");
  // per_rebuild by many blocks or threads, with a fence between levels where a barrier is needed.
  m.def("per_fence(Tensor leaf_C, Tensor(a!) tree_C) -> ()");
  // out[0,m,n] = sum over r of a[r,m] b[r,n]: parts of the rows side by side, added by float atomics as they finish.
  m.def("splitk_gemm(Tensor a_RM, Tensor b_RN, int parts) -> Tensor");
  // CUDA only. out[0,n] = sum over r of a[r,n], by a block's four warps that do not wait for one another.
  m.def("missing_sync(Tensor a_RN) -> Tensor");
  // CUDA only. out[0,n] = sum over r of a[r,n], parts of the rows added by float atomics as they finish.
  m.def("float_atomics(Tensor a_RN) -> Tensor");
  // CUDA only. group_norm, its roots on a stream that does not wait for the sums of squares.
  m.def("wrong_stream(Tensor x_W, int[] offsets) -> Tensor norm_G");
  // CUDA only. Rows of the host into slots [begin, begin + rows), through a page-locked buffer refilled too early.
  m.def("stale_pinned(Tensor(a!) ring_CX, int begin, Tensor rows_BX) -> ()");
}

// The module holds nothing of its own: importing it registers the ops above.
static PyModuleDef module_definition = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
extern "C" __attribute__((visibility("default"))) PyObject* PyInit__C() { return PyModule_Create(&module_definition); }
