// Acting: draws from a softmax, the greedy action, and the states the draws come from.
#pragma once
#include "check.h"
#include "prng.h"
#include "softmax.h"

#include <tuple>

namespace fox {
// The first action whose cumulative probability (ascending, each exp(x - max) / sum) passes u, else the last.
struct SampleAction {
  const float* logits;
  const uint32_t* prng;
  int32_t* action;
  float* log_pi;
  int64_t actions;
  FOX_HD void operator()(int64_t b) const {
    const float* x = logits + b * actions;
    float max = largest(x, actions), sum = 0.f, reached = 0.f, u = unit(xorshift32(prng[b]));
    for (int64_t a = 0; a < actions; ++a) sum = sum + px::exp(x[a] - max);
    int64_t chosen = 0;
    for (; chosen < actions - 1; ++chosen) {
      reached = reached + px::exp(x[chosen] - max) / sum;
      if (u < reached) break;
    }
    action[b] = static_cast<int32_t>(chosen);
    log_pi[b] = px::one_nan((x[chosen] - max) - px::log(sum));
  }
};

template <class On> std::tuple<Tensor, Tensor> sample_action(Tensor logits, Tensor prng) {
  FOX_CHECK(logits.dim() == 2 && logits.size(1) > 0, "sample_action takes 2-D logits with at least one action");
  int64_t batch = logits.size(0), actions = logits.size(1);
  Tensor action = make<int32_t>(logits, {batch}), log_pi = make<float>(logits, {batch});
  On::rows(logits, batch, grain_of(8 * actions),
           SampleAction{in<float>(logits, "logits", {batch, actions}), in<uint32_t>(prng, "prng", {batch}),
                        out<int32_t>(action), out<float>(log_pi), actions});
  return {action, log_pi};
}

struct GreedyAction {
  const float* logits;
  int32_t* action;
  int64_t actions;
  FOX_HD void operator()(int64_t b) const {
    const float* x = logits + b * actions;
    int64_t best = 0;
    for (int64_t a = 1; a < actions; ++a) best = larger(x[a], x[best]) ? a : best;
    action[b] = static_cast<int32_t>(best);
  }
};

template <class On> Tensor greedy_action(Tensor logits) {
  FOX_CHECK(logits.dim() == 2 && logits.size(1) > 0, "greedy_action takes 2-D logits with at least one action");
  int64_t batch = logits.size(0), actions = logits.size(1);
  Tensor action = make<int32_t>(logits, {batch});
  On::rows(logits, batch, grain_of(actions),
           GreedyAction{in<float>(logits, "logits", {batch, actions}), out<int32_t>(action), actions});
  return action;
}

struct PrngAdvance {
  uint32_t* prng;
  int64_t times;
  FOX_HD void operator()(int64_t b) const {
    uint32_t x = prng[b];
    for (int64_t step = 0; step < times; ++step) x = xorshift32(x);
    prng[b] = x;
  }
};

template <class On> void prng_advance(Tensor prng, int64_t times) {
  FOX_CHECK(prng.dim() == 1 && times >= 0, "prng_advance takes a 1-D state and times >= 0");
  int64_t batch = prng.size(0);
  On::advance(prng, batch, PrngAdvance{inout<uint32_t>(prng, "prng", {batch}), times});
}
}  // namespace fox
