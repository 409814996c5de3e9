// Losses of the value heads and the policy: the loss of each row, and the gradient of the mean of weighted rows.
// An action outside [0, A) makes its row NaN: it is read on the device, too late for words.
#pragma once
#include "check.h"
#include "softmax.h"

#include <tuple>

namespace fox {
using RowLoss = std::tuple<Tensor, Tensor>;

// row = sum of m (log sum - (l - max)), an fma chain; grad = w (p - m) / B.
template <class T> struct C51Loss {
  const T *logits, *target, *weight;
  const int32_t* action;
  T *row_loss, *grad;
  int64_t batch, actions, atoms;
  FOX_HD void operator()(int64_t b) const {
    int64_t a = action[b];
    bool valid = a >= 0 && a < actions;
    fill(grad + b * actions * atoms, actions * atoms, valid ? T(0) : T(px::nan_bits()));
    row_loss[b] = valid ? taken(b, (b * actions + a) * atoms) : T(px::nan_bits());
  }
  FOX_HD T taken(int64_t b, int64_t at) const {
    const T *x = logits + at, *m = target + b * atoms;
    T* g = grad + at;
    Softmax<T> softmax = softmax_row(x, g, atoms);
    for (int64_t j = 0; j < atoms; ++j) g[j] = gradient(b, g[j] / softmax.sum, m[j]);
    return loss(x, m, softmax);
  }
  FOX_HD T loss(const T* x, const T* m, Softmax<T> softmax) const {
    T sum = T(0);
    for (int64_t j = 0; j < atoms; ++j) sum = px::fma(m[j], softmax.log_sum - (x[j] - softmax.max), sum);
    return px::one_nan(sum);
  }
  FOX_HD T gradient(int64_t b, T p, T m) const { return px::one_nan(weight[b] * (p - m) / static_cast<T>(batch)); }
};

template <class On, class T>
RowLoss c51_loss_as(const Tensor& logits, const Tensor& target, const Tensor& action, const Tensor& weight) {
  int64_t batch = logits.size(0), actions = logits.size(1), atoms = logits.size(2);
  Tensor row_loss = make<T>(logits, {batch}), grad = make<T>(logits, {batch, actions, atoms});
  On::rows(logits, batch, grain_of(actions * atoms + 8 * atoms),
           C51Loss<T>{in<T>(logits, "logits", {batch, actions, atoms}), in<T>(target, "target", {batch, atoms}),
                      in<T>(weight, "weight", {batch}), in<int32_t>(action, "action", {batch}), out<T>(row_loss),
                      out<T>(grad), batch, actions, atoms});
  return {row_loss, grad};
}
template <class On> RowLoss c51_loss(Tensor logits, Tensor target, Tensor action, Tensor weight) {
  FOX_CHECK(logits.dim() == 3 && logits.size(2) > 0, "c51_loss takes 3-D logits with at least one atom");
  return is_double(logits) ? c51_loss_as<On, double>(logits, target, action, weight)
                           : c51_loss_as<On, float>(logits, target, action, weight);
}

// H = -sum of p log p (fma chain); row = -min(r adv, clip(r) adv) - ent H; live unless r adv is the larger;
// grad = (ent p (log p + H) - live adv r (1_a - p)) / B.
template <class T> struct PiLoss {
  const T *logits, *log_pi_old, *advantage;
  const float* isv;
  const int32_t* action;
  T *row_loss, *grad;
  int64_t batch, actions;
  static constexpr int64_t ent_coef = 1, isv_size = 16;
  FOX_HD void operator()(int64_t b) const {
    const T* x = logits + b * actions;
    T *g = grad + b * actions, entropy = T(0);
    int64_t a = action[b];
    if (a < 0 || a >= actions) {
      fill(g, actions, T(px::nan_bits()));
      row_loss[b] = T(px::nan_bits());
      return;
    }
    Softmax<T> softmax = softmax_row(x, g, actions);
    for (int64_t j = 0; j < actions; ++j) g[j] = g[j] / softmax.sum;
    for (int64_t j = 0; j < actions; ++j) entropy = px::fma(-g[j], softmax.log_of(x[j]), entropy);
    T ratio = px::exp(softmax.log_of(x[a]) - log_pi_old[b]), ent = static_cast<T>(isv[ent_coef]);
    T free = ratio * advantage[b], bounded = clip(ratio, T(0.8), T(1.2)) * advantage[b];
    bool live = !(free > bounded);  // NaN is live, so that its gradient shows it
    row_loss[b] = px::one_nan(-(live ? free : bounded) - ent * entropy);
    T push = live ? free : T(0);
    for (int64_t j = 0; j < actions; ++j) {
      T towards = (j == a ? T(1) : T(0)) - g[j];
      g[j] = px::one_nan((ent * (g[j] * (softmax.log_of(x[j]) + entropy)) - push * towards) / static_cast<T>(batch));
    }
  }
};

template <class On, class T>
RowLoss pi_loss_as(const Tensor& logits, const Tensor& action, const Tensor& log_pi_old, const Tensor& advantage,
                   const Tensor& isv) {
  int64_t batch = logits.size(0), actions = logits.size(1);
  Tensor row_loss = make<T>(logits, {batch}), grad = make<T>(logits, {batch, actions});
  On::rows(logits, batch, grain_of(16 * actions),
           PiLoss<T>{in<T>(logits, "logits", {batch, actions}), in<T>(log_pi_old, "log_pi_old", {batch}),
                     in<T>(advantage, "advantage", {batch}), in<float>(isv, "isv", {PiLoss<T>::isv_size}),
                     in<int32_t>(action, "action", {batch}), out<T>(row_loss), out<T>(grad), batch, actions});
  return {row_loss, grad};
}
template <class On> RowLoss pi_loss(Tensor logits, Tensor action, Tensor log_pi_old, Tensor advantage, Tensor isv) {
  FOX_CHECK(logits.dim() == 2 && logits.size(1) > 0, "pi_loss takes 2-D logits with at least one action");
  return is_double(logits) ? pi_loss_as<On, double>(logits, action, log_pi_old, advantage, isv)
                           : pi_loss_as<On, float>(logits, action, log_pi_old, advantage, isv);
}

// row = (e / 2) e; grad = e / B.
template <class T> struct ValueLoss {
  const T *v, *target;
  T *row_loss, *grad;
  int64_t batch;
  FOX_HD void operator()(int64_t b) const {
    T error = v[b] - target[b];
    row_loss[b] = px::one_nan(T(0.5) * error * error);
    grad[b] = px::one_nan(error / static_cast<T>(batch));
  }
};

template <class On, class T> RowLoss v_loss_as(const Tensor& v, const Tensor& target) {
  int64_t batch = v.size(0);
  Tensor row_loss = make<T>(v, {batch}), grad = make<T>(v, {batch, 1});
  On::rows(v, batch, grain_of(1),
           ValueLoss<T>{in<T>(v, "v", {batch, 1}), in<T>(target, "target", {batch}), out<T>(row_loss), out<T>(grad),
                        batch});
  return {row_loss, grad};
}
template <class On> RowLoss v_loss(Tensor v, Tensor target) {
  FOX_CHECK(v.dim() == 2, "v_loss takes a 2-D v");
  return is_double(v) ? v_loss_as<On, double>(v, target) : v_loss_as<On, float>(v, target);
}

// row = huber(e); grad = clip(e, -1, 1) w / B at the action, else +0.
template <class T> struct DuelingLoss {
  const T *q, *target, *weight;
  const int32_t* action;
  T *row_loss, *grad;
  int64_t batch, actions;
  FOX_HD void operator()(int64_t b) const {
    int64_t a = action[b];
    bool valid = a >= 0 && a < actions;
    fill(grad + b * actions, actions, valid ? T(0) : T(px::nan_bits()));
    row_loss[b] = T(px::nan_bits());
    if (!valid) return;
    T error = q[b * actions + a] - target[b];
    row_loss[b] = px::one_nan(huber(error));
    grad[b * actions + a] = px::one_nan(clip(error, T(-1), T(1)) * weight[b] / static_cast<T>(batch));
  }
};

template <class On, class T>
RowLoss dueling_loss_as(const Tensor& q, const Tensor& target, const Tensor& action, const Tensor& weight) {
  int64_t batch = q.size(0), actions = q.size(1);
  Tensor row_loss = make<T>(q, {batch}), grad = make<T>(q, {batch, actions});
  On::rows(q, batch, grain_of(actions),
           DuelingLoss<T>{in<T>(q, "q", {batch, actions}), in<T>(target, "target", {batch}),
                          in<T>(weight, "weight", {batch}), in<int32_t>(action, "action", {batch}), out<T>(row_loss),
                          out<T>(grad), batch, actions});
  return {row_loss, grad};
}
template <class On> RowLoss dueling_loss(Tensor q, Tensor target, Tensor action, Tensor weight) {
  FOX_CHECK(q.dim() == 2, "dueling_loss takes a 2-D q");
  return is_double(q) ? dueling_loss_as<On, double>(q, target, action, weight)
                      : dueling_loss_as<On, float>(q, target, action, weight);
}
}  // namespace fox
