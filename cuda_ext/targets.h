// What the heads are pulled towards: r + gamma (1 - d) times the target networks' view of the next state.
#pragma once
#include "check.h"
#include "softmax.h"

namespace fox {
struct Bellman {
  const float* reward;
  const uint8_t* done;
  const float* isv;
  static constexpr int64_t gamma = 2, isv_size = 16;
  // Product and sum round apart.
  FOX_HD float operator()(int64_t b, float next) const {
    float discount = done[b] ? 0.f : isv[gamma];
    return reward[b] + discount * next;
  }
};

inline Bellman bellman(const Tensor& reward, const Tensor& done, const Tensor& isv, int64_t batch) {
  return {in<float>(reward, "reward", {batch}), in<uint8_t>(done, "done", {batch}),
          in<float>(isv, "isv", {Bellman::isv_size})};
}

// Atom j of Z on [-2, 2] is (4j - 2(Z-1)) / (Z-1): an exact integer, one division; symmetric, its middle +0.
FOX_HD float atom(int64_t j, int64_t atoms) {
  return static_cast<float>(4 * j - 2 * (atoms - 1)) / static_cast<float>(atoms - 1);
}

// The greedy action's distribution (means are fma chains), each atom moved by Bellman's equation and its mass split
// between the two nearest atoms by fma: j ascending, lower before upper, all to the lower where it is hit.
// A position that is NaN puts NaN on atom 0.
struct C51Target {
  const float* logits;
  Bellman equation;
  float *p, *target;
  int64_t actions, atoms;
  struct Place {  // of an atom's mass: its lower neighbour, and the share of the upper one
    int64_t low;
    float up;
  };
  FOX_HD Place place(int64_t b, int64_t j) const {
    float scale = static_cast<float>(atoms - 1) * 0.25f;
    float y = (clip(equation(b, atom(j, atoms)), -2.f, 2.f) + 2.f) * scale;
    int64_t low = y == y ? static_cast<int64_t>(y) : 0;
    return {low, y - static_cast<float>(low)};
  }
  FOX_HD void probabilities(int64_t b, int64_t a) const {
    float* __restrict__ to = p + b * atoms;
    float sum = softmax_row(logits + (b * actions + a) * atoms, to, atoms).sum;
    for (int64_t j = 0; j < atoms; ++j) to[j] = to[j] / sum;
  }
  FOX_HD int64_t greedy(int64_t b) const {
    int64_t best = 0;
    float best_mean = 0.f;
    for (int64_t a = 0; a < actions; ++a) {
      probabilities(b, a);
      float mean = 0.f;
      for (int64_t j = 0; j < atoms; ++j) mean = px::fma(p[b * atoms + j], atom(j, atoms), mean);
      bool better = a == 0 || larger(mean, best_mean);
      best = better ? a : best;
      best_mean = better ? mean : best_mean;
    }
    return best;
  }
  FOX_HD void operator()(int64_t b) const {
    float* mass = target + b * atoms;
    probabilities(b, greedy(b));
    fill(mass, atoms, 0.f);
    for (int64_t j = 0; j < atoms; ++j) {
      Place at = place(b, j);
      mass[at.low] = px::fma(p[b * atoms + j], 1.f - at.up, mass[at.low]);
      if (at.up > 0.f) mass[at.low + 1] = px::fma(p[b * atoms + j], at.up, mass[at.low + 1]);
    }
    for (int64_t j = 0; j < atoms; ++j) mass[j] = px::one_nan(mass[j]);
  }
};

template <class On> Tensor c51_target(Tensor logits, Tensor reward, Tensor done, Tensor isv) {
  FOX_CHECK(logits.dim() == 3 && logits.size(1) > 0 && logits.size(2) > 1, "c51_target takes 3-D logits, two atoms up");
  int64_t batch = logits.size(0), actions = logits.size(1), atoms = logits.size(2);
  Tensor target = make<float>(logits, {batch, atoms}), p = make<float>(logits, {batch, atoms});
  On::rows(logits, batch, grain_of(4 * actions * atoms),
           C51Target{in<float>(logits, "logits", {batch, actions, atoms}), bellman(reward, done, isv, batch),
                     out<float>(p), out<float>(target), actions, atoms});
  return target;
}

struct ValueTarget {
  const float* v;
  Bellman equation;
  float* target;
  FOX_HD void operator()(int64_t b) const { target[b] = px::one_nan(equation(b, v[b])); }
};

template <class On> Tensor v_target(Tensor v, Tensor reward, Tensor done, Tensor isv) {
  FOX_CHECK(v.dim() == 2, "v_target takes a 2-D v");
  int64_t batch = v.size(0);
  Tensor target = make<float>(v, {batch});
  On::rows(v, batch, grain_of(1),
           ValueTarget{in<float>(v, "v", {batch, 1}), bellman(reward, done, isv, batch), out<float>(target)});
  return target;
}

// Greedy by the mean over the quantiles: an ascending sum divided by Q.
struct IqnTarget {
  const float* q;
  Bellman equation;
  float* target;
  int64_t quantiles, actions;
  FOX_HD float mean(const float* row, int64_t a) const {
    float sum = 0.f;
    FOX_WALK
    for (int64_t i = 0; i < quantiles; ++i) sum = sum + row[i * actions + a];
    return sum / static_cast<float>(quantiles);
  }
  FOX_HD void operator()(int64_t b) const {
    int64_t best = 0;
    const float* row = q + b * quantiles * actions;
    float best_mean = mean(row, 0);
    for (int64_t a = 1; a < actions; ++a) {
      float candidate = mean(row, a);
      bool better = larger(candidate, best_mean);
      best = better ? a : best;
      best_mean = better ? candidate : best_mean;
    }
    for (int64_t i = 0; i < quantiles; ++i)
      target[b * quantiles + i] = px::one_nan(equation(b, row[i * actions + best]));
  }
};

template <class On> Tensor iqn_target(Tensor q, Tensor reward, Tensor done, Tensor isv) {
  FOX_CHECK(q.dim() == 3 && q.size(1) > 0 && q.size(2) > 0, "iqn_target takes a 3-D q that is not empty");
  int64_t batch = q.size(0), quantiles = q.size(1), actions = q.size(2);
  Tensor target = make<float>(q, {batch, quantiles});
  On::rows(q, batch, grain_of(4 * quantiles * actions),
           IqnTarget{in<float>(q, "q", {batch, quantiles, actions}), bellman(reward, done, isv, batch),
                     out<float>(target), quantiles, actions});
  return target;
}

struct DuelingTarget {
  const float* q;
  Bellman equation;
  float* target;
  int64_t actions;
  FOX_HD void operator()(int64_t b) const { target[b] = px::one_nan(equation(b, largest(q + b * actions, actions))); }
};

template <class On> Tensor dueling_target(Tensor q, Tensor reward, Tensor done, Tensor isv) {
  FOX_CHECK(q.dim() == 2 && q.size(1) > 0, "dueling_target takes a 2-D q with at least one action");
  int64_t batch = q.size(0), actions = q.size(1);
  Tensor target = make<float>(q, {batch});
  On::rows(q, batch, grain_of(actions),
           DuelingTarget{in<float>(q, "q", {batch, actions}), bellman(reward, done, isv, batch), out<float>(target),
                         actions});
  return target;
}
}  // namespace fox
