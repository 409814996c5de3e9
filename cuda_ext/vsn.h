// Variable selection: a linear gate over the features, its softmax, and the features it lets through.
#pragma once
#include <tuple>
#include "row.h"

namespace fox {
// Logits as linalg's matmul: one fmaf chain over k ascending from +0, then + b. out = (F * gate) * x, rounded apart.
template <class T, int Group> struct VsnFwd {
  const T *x, *w, *b;
  T *gate, *out;
  int64_t count, features;
  static constexpr int block = 16;

  FOX_HD T result(T gate, T x) const { return px::one_nan(static_cast<T>(features) * gate * x); }
  FOX_HD void operator()(int64_t i) const { grouped<Group>(*this, i, count); }

  template <int G> FOX_HD void rows(int64_t first) const {
    for (int64_t column = 0; column < features && features >= block; column += block)
      logits<G, block>(first, column < features - block ? column : features - block);
    for (int64_t column = 0; column < features && features < block; ++column) logits<G, 1>(first, column);
    softmax_rows_of<G>(gate + first * features, features);
    for (int64_t e = first * features; e < (first + G) * features; ++e) out[e] = result(gate[e], x[e]);
  }

  // The last block overlaps the one before where features are no multiple of it; the same columns get the same bits.
  template <int G, int Width> FOX_HD void logits(int64_t first, int64_t column) const {
    T sum[G][Width];
    for (int r = 0; r < G; ++r)
      for (int j = 0; j < Width; ++j) sum[r][j] = T(0);
    for (int64_t k = 0; k < features; ++k) {
      FOX_UNROLL
      for (int r = 0; r < G; ++r) {
        T factor = x[(first + r) * features + k];
        FOX_LANES
        for (int j = 0; j < Width; ++j) sum[r][j] = px::fma(factor, w[k * features + column + j], sum[r][j]);
      }
    }
    for (int r = 0; r < G; ++r)
      for (int j = 0; j < Width; ++j) gate[(first + r) * features + column + j] = sum[r][j] + b[column + j];
  }
};

// dg = (F * x) * dout; dl = gate * (dg - sum of gate dg, a fused chain).
template <class T, int Group> struct VsnBwd {
  const T *x, *gate, *grad_out;
  T* grad_logits;
  int64_t count, features;

  FOX_HD T grad_gate(T x, T grad) const { return static_cast<T>(features) * x * grad; }
  FOX_HD static T result(T gate, T grad, T mean) { return px::one_nan(gate * (grad - mean)); }
  FOX_HD void operator()(int64_t i) const { grouped<Group>(*this, i, count); }

  template <int G> FOX_HD void rows(int64_t first) const {
    int64_t begin = first * features;
    T mean[G];
    for (int64_t e = begin; e < begin + G * features; ++e) grad_logits[e] = grad_gate(x[e], grad_out[e]);
    dot_rows_of<G>(gate + begin, grad_logits + begin, features, features, mean);
    for (int r = 0; r < G; ++r)
      for (int64_t e = begin + r * features; e < begin + (r + 1) * features; ++e)
        grad_logits[e] = result(gate[e], grad_logits[e], mean[r]);
  }
};

template <class On, class T> std::tuple<Tensor, Tensor> vsn_fwd_as(const Tensor& x, const Tensor& w, const Tensor& b) {
  int64_t batch = x.size(0), steps = x.size(1), features = x.size(2), count = batch * steps;
  FOX_CHECK(features > 0, "x must have features");
  Tensor gate = make<T>(x, {batch, steps, features}), result = make<T>(x, {batch, steps, features});
  On::rows(x, groups<On>(count), 8,
           VsnFwd<T, On::group>{in<T>(x, "x", {batch, steps, features}), in<T>(w, "w", {features, features}),
                                in<T>(b, "b", {features}), out<T>(gate), out<T>(result), count, features});
  return {gate, result};
}
template <class On> std::tuple<Tensor, Tensor> vsn_fwd(Tensor x, Tensor w, Tensor b) {
  FOX_CHECK(x.dim() == 3, "x must be 3-D");
  return is_double(x) ? vsn_fwd_as<On, double>(x, w, b) : vsn_fwd_as<On, float>(x, w, b);
}

template <class On, class T> Tensor vsn_bwd_as(const Tensor& x, const Tensor& gate, const Tensor& grad_out) {
  int64_t batch = x.size(0), steps = x.size(1), features = x.size(2), count = batch * steps;
  Tensor grad_logits = make<T>(x, {batch, steps, features});
  On::rows(x, groups<On>(count), 32,
           VsnBwd<T, On::group>{in<T>(x, "x", {batch, steps, features}), in<T>(gate, "gate", {batch, steps, features}),
                                in<T>(grad_out, "grad_out", {batch, steps, features}), out<T>(grad_logits), count,
                                features});
  return grad_logits;
}
template <class On> Tensor vsn_bwd(Tensor x, Tensor gate, Tensor grad_out) {
  FOX_CHECK(x.dim() == 3, "x must be 3-D");
  return is_double(x) ? vsn_bwd_as<On, double>(x, gate, grad_out) : vsn_bwd_as<On, float>(x, gate, grad_out);
}
}  // namespace fox
