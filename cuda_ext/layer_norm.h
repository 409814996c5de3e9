// Layer normalisation of a sum of two inputs, in two passes over the row.
#pragma once
#include <tuple>
#include "row.h"

namespace fox {
// mean = sum s / H; var = sum (s - mean)^2 / H, a fused chain; rstd = 1 / sqrt(var + 1e-5); norm = (s - mean) * rstd;
// out = gain * norm + bias, rounded apart.
template <class T, int Group> struct LayerNormFwd {
  const T *x, *residual, *gain, *bias;
  T *out, *norm, *rstd;
  int64_t count, hidden;

  FOX_HD T scale_of(T square) const { return T(1) / px::sqrt(square / static_cast<T>(hidden) + T(1e-5)); }
  FOX_HD static T normal(T centred, T scale) { return px::one_nan(centred * scale); }
  FOX_HD T result(T n, int64_t j) const { return px::one_nan(gain[j] * n + bias[j]); }

  FOX_HD void operator()(int64_t i) const { grouped<Group>(*this, i, count); }

  template <int G> FOX_HD void rows(int64_t first) const {
    int64_t begin = first * hidden;
    T mean[G], square[G];
    T* s = norm + begin;
    for (int64_t e = 0; e < G * hidden; ++e) s[e] = x[begin + e] + residual[begin + e];
    sum_rows_of<G>(s, hidden, mean);
    for (int r = 0; r < G; ++r) {
      mean[r] = mean[r] / static_cast<T>(hidden);
      for (int64_t j = 0; j < hidden; ++j) s[r * hidden + j] = s[r * hidden + j] - mean[r];
    }
    dot_rows_of<G>(s, s, hidden, hidden, square);
    for (int r = 0; r < G; ++r) {
      T scale = scale_of(square[r]);
      rstd[first + r] = px::one_nan(scale);
      for (int64_t j = 0; j < hidden; ++j) {
        T n = normal(s[r * hidden + j], scale);
        s[r * hidden + j] = n;
        out[begin + r * hidden + j] = result(n, j);
      }
    }
  }
};

// k = dy * gain; dx = rstd * ((k - sum k / H) - norm * (sum k norm / H)), the second sum a fused chain.
template <class T, int Group> struct LayerNormBwd {
  const T *norm, *rstd, *gain, *grad_out;
  T *grad_x, *grad_gain;
  int64_t count, hidden;

  FOX_HD static T result(T scale, T k, T mean, T n, T along) { return px::one_nan(scale * ((k - mean) - n * along)); }

  FOX_HD void operator()(int64_t i) const { grouped<Group>(*this, i, count); }

  template <int G> FOX_HD void rows(int64_t first) const {
    int64_t begin = first * hidden;
    T mean[G], along[G];
    T* k = grad_x + begin;
    const T* n = norm + begin;
    for (int r = 0; r < G; ++r)
      for (int64_t j = 0; j < hidden; ++j) k[r * hidden + j] = grad_out[begin + r * hidden + j] * gain[j];
    sum_rows_of<G>(k, hidden, mean);
    dot_rows_of<G>(k, n, hidden, hidden, along);
    for (int r = 0; r < G; ++r) {
      T scale = rstd[first + r];
      mean[r] = mean[r] / static_cast<T>(hidden);
      along[r] = along[r] / static_cast<T>(hidden);
      for (int64_t e = r * hidden; e < (r + 1) * hidden; ++e)
        k[e] = result(scale, k[e], mean[r], n[e], along[r]);
    }
    for (int64_t e = 0; e < G * hidden; ++e) grad_gain[begin + e] = px::one_nan(grad_out[begin + e] * n[e]);
  }
};

template <class On, class T>
std::tuple<Tensor, Tensor, Tensor> layer_norm_fwd_as(const Tensor& x, const Tensor& residual, const Tensor& gain,
                                                     const Tensor& bias) {
  int64_t count = x.size(0), hidden = x.size(1);
  Tensor result = make<T>(x, {count, hidden}), norm = make<T>(x, {count, hidden}), rstd = make<T>(x, {count});
  On::rows(x, groups<On>(count), 16,
           LayerNormFwd<T, On::group>{in<T>(x, "x", {count, hidden}), in<T>(residual, "residual", {count, hidden}),
                                      in<T>(gain, "gain", {hidden}), in<T>(bias, "bias", {hidden}), out<T>(result),
                                      out<T>(norm), out<T>(rstd), count, hidden});
  return {result, norm, rstd};
}
template <class On>
std::tuple<Tensor, Tensor, Tensor> layer_norm_fwd(Tensor x, Tensor residual, Tensor gain, Tensor bias) {
  FOX_CHECK(x.dim() == 2, "x must be 2-D");
  return is_double(x) ? layer_norm_fwd_as<On, double>(x, residual, gain, bias)
                      : layer_norm_fwd_as<On, float>(x, residual, gain, bias);
}

template <class On, class T>
std::tuple<Tensor, Tensor> layer_norm_bwd_as(const Tensor& norm, const Tensor& rstd, const Tensor& gain,
                                             const Tensor& grad_out) {
  int64_t count = norm.size(0), hidden = norm.size(1);
  Tensor grad_x = make<T>(norm, {count, hidden}), grad_gain = make<T>(norm, {count, hidden});
  On::rows(norm, groups<On>(count), 16,
           LayerNormBwd<T, On::group>{in<T>(norm, "norm", {count, hidden}), in<T>(rstd, "rstd", {count}),
                                      in<T>(gain, "gain", {hidden}), in<T>(grad_out, "grad_out", {count, hidden}),
                                      out<T>(grad_x), out<T>(grad_gain), count, hidden});
  return {grad_x, grad_gain};
}
template <class On> std::tuple<Tensor, Tensor> layer_norm_bwd(Tensor norm, Tensor rstd, Tensor gain, Tensor grad_out) {
  FOX_CHECK(norm.dim() == 2, "norm must be 2-D");
  return is_double(norm) ? layer_norm_bwd_as<On, double>(norm, rstd, gain, grad_out)
                         : layer_norm_bwd_as<On, float>(norm, rstd, gain, grad_out);
}
}  // namespace fox
