// The quantile Huber loss: every drawn quantile i against every target quantile j.
#pragma once
#include "losses.h"

namespace fox {
// loss_i = mean over j of |tau_i - [u < 0]| huber(u), u = y_j - q_i: an fma chain, j ascending, divided by Q; the row
// adds loss_i ascending. grad at the action = -(w slope_i) / B, slope_i the same mean of clip(u, -1, 1); else +0.
template <class T> struct IqnLoss {
  const T *q, *tau, *target, *weight;
  const int32_t* action;
  T *row_loss, *grad;
  int64_t batch, quantiles, actions;
  static constexpr int64_t lanes = 16;  // quantiles i side by side; each keeps its own ascending chain

  FOX_HD void operator()(int64_t b) const {
    int64_t a = action[b];
    bool valid = a >= 0 && a < actions;
    fill(grad + b * quantiles * actions, quantiles * actions, valid ? T(0) : T(px::nan_bits()));
    row_loss[b] = T(px::nan_bits());
    if (!valid) return;
    T total = T(0), count = static_cast<T>(quantiles);
    for (int64_t first = 0; first < quantiles; first += lanes) {
      T loss[lanes], slope[lanes];
      chains(b, a, first, loss, slope);
      for (int64_t lane = 0; lane < lanes && first + lane < quantiles; ++lane) {
        total = total + loss[lane] / count;
        grad[(b * quantiles + first + lane) * actions + a] = gradient(b, slope[lane]);
      }
    }
    row_loss[b] = px::one_nan(total);
  }
  FOX_HD T gradient(int64_t b, T slope) const {
    T mean = slope / static_cast<T>(quantiles);
    return px::one_nan(-(weight[b] * mean) / static_cast<T>(batch));
  }
  FOX_HD static void add(T u, T level, T& loss, T& slope) {
    T tilt = px::abs(level - (u < T(0) ? T(1) : T(0)));
    loss = px::fma(tilt, huber(u), loss);
    slope = px::fma(tilt, clip(u, T(-1), T(1)), slope);
  }
  // The sums of `lanes` quantiles from `first`; lanes past the last repeat it and are dropped.
  FOX_HD void chains(int64_t b, int64_t a, int64_t first, T* loss, T* slope) const {
    T mine[lanes], level[lanes];
    for (int64_t lane = 0; lane < lanes; ++lane) {
      int64_t row = b * quantiles + (first + lane < quantiles ? first + lane : quantiles - 1);
      mine[lane] = q[row * actions + a];
      level[lane] = tau[row];
      loss[lane] = slope[lane] = T(0);
    }
    for (int64_t j = 0; j < quantiles; ++j) {
      T y = target[b * quantiles + j];
      for (int64_t lane = 0; lane < lanes; ++lane) {
        add(y - mine[lane], level[lane], loss[lane], slope[lane]);
      }
    }
  }
};

template <class On, class T>
RowLoss iqn_loss_as(const Tensor& q, const Tensor& tau, const Tensor& target, const Tensor& action,
                    const Tensor& weight) {
  int64_t batch = q.size(0), quantiles = q.size(1), actions = q.size(2);
  Tensor row_loss = make<T>(q, {batch}), grad = make<T>(q, {batch, quantiles, actions});
  On::rows(q, batch, grain_of(quantiles * (quantiles + actions)),
           IqnLoss<T>{in<T>(q, "q", {batch, quantiles, actions}), in<T>(tau, "tau", {batch, quantiles}),
                      in<T>(target, "target", {batch, quantiles}), in<T>(weight, "weight", {batch}),
                      in<int32_t>(action, "action", {batch}), out<T>(row_loss), out<T>(grad), batch, quantiles,
                      actions});
  return {row_loss, grad};
}
template <class On> RowLoss iqn_loss(Tensor q, Tensor tau, Tensor target, Tensor action, Tensor weight) {
  FOX_CHECK(q.dim() == 3 && q.size(1) > 0, "iqn_loss takes a 3-D q with at least one quantile");
  return is_double(q) ? iqn_loss_as<On, double>(q, tau, target, action, weight)
                      : iqn_loss_as<On, float>(q, tau, target, action, weight);
}
}  // namespace fox
