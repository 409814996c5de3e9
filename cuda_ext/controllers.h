// The controllers of the internal state variables: exponential means of what a step showed, then the settings from them.
#pragma once
#include "learn.h"

namespace fox {
namespace isv {
enum Index { lr_mult, ent_coef, gamma, per_beta, reward_scale, ema_entropy, ema_abs_reward, ema_hold, ema_ratio, n_done };
}

// Entropy of softmax(row): p = e^(l - max) / sum, ascending; sum of p (log sum - (l - max)), a chain of fmaf.
struct EntropyOfRow {
  const float* logits;
  float* entropy;
  int64_t actions;
  FOX_HD void operator()(int64_t b) const {
    const float* l = logits + b * actions;
    float top = l[0], sum = 0.f, h = 0.f;
    for (int64_t a = 1; a < actions; ++a) top = l[a] > top ? l[a] : top;
    for (int64_t a = 0; a < actions; ++a) sum = sum + px::exp(l[a] - top);
    float log_sum = px::log(sum);
    for (int64_t a = 0; a < actions; ++a) h = px::fma(px::exp(l[a] - top) / sum, log_sum - (l[a] - top), h);
    entropy[b] = h;
  }
};

FOX_HD float clip(float x, float low, float high) { return x < low ? low : (x > high ? high : x); }
FOX_HD float moved(float ema, float x) { return ema + 0.05f * (x - ema); }

// Means over rows; a mean of nothing leaves its EMA where it was.
struct Control {
  float* isv;
  const float *entropy, *reward;
  const uint8_t* done;
  const int32_t* hold;
  const float *norm_delta, *norm_weights;
  const int64_t* step;
  int64_t rows, actions, steps;

  struct Part {
    float entropy, reward;
    int64_t closed, hold;
  };

  FOX_HD void operator()(int64_t) const { in_chunks(*this); }
  FOX_HD Part part(int64_t begin, int64_t end) const {
    Part part{0.f, 0.f, 0, 0};
    FOX_WALK
    for (int64_t b = begin; b < end; ++b) {
      part.entropy = part.entropy + entropy[b];
      part.reward = part.reward + px::abs(reward[b]);
      part.closed += done[b] != 0;
      part.hold += done[b] != 0 ? hold[b] : 0;
    }
    return part;
  }
  FOX_HD static Part add(Part a, Part b) {
    return {a.entropy + b.entropy, a.reward + b.reward, a.closed + b.closed, a.hold + b.hold};
  }

  FOX_HD void finish(Part total) const {
    float s[16];
    for (int j = 0; j < 16; ++j) s[j] = isv[j];
    observe(s, total);
    float wanted = 0.5f * px::log(static_cast<float>(actions));
    s[isv::ent_coef] = clip(s[isv::ent_coef] * px::exp(0.05f * (wanted - s[isv::ema_entropy])), 1e-4f, 0.1f);
    s[isv::per_beta] = clip(0.4f + 0.6f * static_cast<float>(*step) / static_cast<float>(steps), 0.4f, 1.f);
    s[isv::reward_scale] = clip(0.5f / (s[isv::ema_abs_reward] + 0.05f), 0.1f, 4.f);
    if (total.closed) s[isv::gamma] = moved(s[isv::gamma], 1.f - 1.f / clip(2.f * s[isv::ema_hold], 50.f, 1000.f));
    float pull = clip(px::log(1e-3f / s[isv::ema_ratio]), -1.f, 1.f);
    s[isv::lr_mult] = clip(s[isv::lr_mult] * px::exp(0.02f * pull), 0.1f, 10.f);
    for (int j = 0; j < 16; ++j) isv[j] = px::one_nan(s[j]);
  }

  // The four means.
  FOX_HD void observe(float* s, Part total) const {
    float closed = static_cast<float>(total.closed);
    s[isv::ema_entropy] = moved(s[isv::ema_entropy], total.entropy / static_cast<float>(rows));
    s[isv::ema_abs_reward] = moved(s[isv::ema_abs_reward], total.reward / static_cast<float>(rows));
    if (total.closed) s[isv::ema_hold] = moved(s[isv::ema_hold], static_cast<float>(total.hold) / closed);
    if (*norm_weights > 0.f) s[isv::ema_ratio] = moved(s[isv::ema_ratio], *norm_delta / *norm_weights);
    s[isv::n_done] = s[isv::n_done] + closed;
  }
};

template <class On>
void controllers(Tensor isv, Tensor pi_logits, Tensor reward_raw, Tensor done, Tensor hold_steps, Tensor norm_delta,
                 Tensor norm_weights, Tensor step, int64_t steps) {
  FOX_CHECK(pi_logits.dim() == 2 && pi_logits.size(0) > 0 && pi_logits.size(1) > 0, "controllers takes logits of rows");
  int64_t rows = pi_logits.size(0), actions = pi_logits.size(1);
  Tensor entropy = make<float>(isv, {rows});
  On::rows(isv, rows, 256, EntropyOfRow{in<float>(pi_logits, "pi_logits", {rows, actions}), out<float>(entropy), actions});
  On::rows(isv, 1, 1,
           Control{inout<float>(isv, "isv", {16}), out<float>(entropy), in<float>(reward_raw, "reward_raw", {rows}),
                   in<uint8_t>(done, "done", {rows}), in<int32_t>(hold_steps, "hold_steps", {rows}),
                   in<float>(norm_delta, "norm_delta", {}), in<float>(norm_weights, "norm_weights", {}),
                   in<int64_t>(step, "step", {}), rows, actions, steps});
}
}  // namespace fox
