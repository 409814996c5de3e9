// Attention pooling over the window by one learnt query.
#pragma once
#include <tuple>
#include "row.h"

namespace fox {
// out[r] = (x[r] . y[r / T], a fused chain over h) / divisor, T rows in turn sharing a y (or all of them: shared).
template <class T, int Group> struct AttentionDot {
  const T *x, *y;
  T* dots;
  int64_t count, steps, hidden;
  bool shared;
  T divisor;

  FOX_HD void operator()(int64_t i) const { grouped<Group>(*this, i, count); }

  template <int G> FOX_HD void rows(int64_t first) const {
    T dot[G];
    if (shared || first / steps == (first + G - 1) / steps) {
      dot_rows_of<G>(x + first * hidden, y + (shared ? 0 : first / steps * hidden), 0, hidden, dot);
    } else {
      for (int r = 0; r < G; ++r)
        dot_rows_of<1>(x + (first + r) * hidden, y + (first + r) / steps * hidden, 0, hidden, dot + r);
    }
    for (int r = 0; r < G; ++r) dots[first + r] = dot[r] / divisor;
  }
};

template <class T, int Group> struct AttentionSoftmax {
  T* alpha;
  int64_t count, steps;
  FOX_HD void operator()(int64_t i) const { grouped<Group>(*this, i, count); }
  template <int G> FOX_HD void rows(int64_t first) const { softmax_rows_of<G>(alpha + first * steps, steps); }
};

// out[b,h] = sum over t of weight[b,t] e[b,t,h], a fused chain.
template <class T> struct AttentionPool {
  const T *e, *weight;
  T* out;
  int64_t steps;
  Spans spans;
  FOX_HD void operator()(int64_t i) const {
    int64_t row = spans.row(i), begin = spans.begin(i), end = spans.end(i);
    T* to = out + row * spans.size;
    for (int64_t j = begin; j < end; ++j) to[j] = T(0);
    for (int64_t t = row * steps; t < (row + 1) * steps; ++t) {
      T factor = weight[t];
      for (int64_t j = begin; j < end; ++j) to[j] = px::fma(factor, e[t * spans.size + j], to[j]);
    }
    for (int64_t j = begin; j < end; ++j) to[j] = px::one_nan(to[j]);
  }
};

// In place on dalpha: ds_t / sqrt(H) = (alpha_t * (dalpha_t - sum of alpha dalpha, a fused chain)) / sqrt(H).
template <class T, int Group> struct AttentionScoreBwd {
  const T* alpha;
  T* grad;
  int64_t count, steps;
  T root;
  FOX_HD T result(T alpha, T grad, T mean) const { return alpha * (grad - mean) / root; }
  FOX_HD void operator()(int64_t i) const { grouped<Group>(*this, i, count); }
  template <int G> FOX_HD void rows(int64_t first) const {
    T mean[G];
    int64_t begin = first * steps;
    dot_rows_of<G>(alpha + begin, grad + begin, steps, steps, mean);
    for (int r = 0; r < G; ++r)
      for (int64_t e = begin + r * steps; e < begin + (r + 1) * steps; ++e)
        grad[e] = result(alpha[e], grad[e], mean[r]);
  }
};

// de_t = alpha_t * dcontext + (ds_t / sqrt(H)) * q, rounded apart.
template <class T> struct AttentionGradE {
  const T *alpha, *grad_score, *q, *grad_context;
  T* grad_e;
  int64_t steps;
  Spans spans;
  FOX_HD static T result(T share, T along, T score, T q) { return px::one_nan(share * along + score * q); }
  FOX_HD void operator()(int64_t i) const {
    int64_t row = spans.row(i), end = spans.end(i);
    const T* along = grad_context + quotient(row, steps) * spans.size;
    T share = alpha[row], score = grad_score[row];
    for (int64_t j = spans.begin(i); j < end; ++j)
      grad_e[row * spans.size + j] = result(share, along[j], score, q[j]);
  }
};

template <class On, class T> std::tuple<Tensor, Tensor> attention_fwd_as(const Tensor& e, const Tensor& q) {
  int64_t batch = e.size(0), steps = e.size(1), hidden = e.size(2), count = batch * steps;
  FOX_CHECK(steps > 0, "e must have steps");
  const T* e_pointer = in<T>(e, "e", {batch, steps, hidden});
  Tensor alpha = make<T>(e, {batch, steps}), context = make<T>(e, {batch, hidden});
  On::rows(e, groups<On>(count), 32,
           AttentionDot<T, On::group>{e_pointer, in<T>(q, "q", {hidden}), out<T>(alpha), count, steps, hidden, true,
                                      px::sqrt(static_cast<T>(hidden))});
  On::rows(e, groups<On>(batch), 16, AttentionSoftmax<T, On::group>{out<T>(alpha), batch, steps});
  Spans spans{hidden, On::span(hidden)};
  On::rows(e, batch * spans.per_row(), 64, AttentionPool<T>{e_pointer, out<T>(alpha), out<T>(context), steps, spans});
  return {alpha, context};
}
template <class On> std::tuple<Tensor, Tensor> attention_fwd(Tensor e, Tensor q) {
  FOX_CHECK(e.dim() == 3, "e must be 3-D");
  return is_double(e) ? attention_fwd_as<On, double>(e, q) : attention_fwd_as<On, float>(e, q);
}

template <class On, class T>
std::tuple<Tensor, Tensor> attention_bwd_as(const Tensor& e, const Tensor& q, const Tensor& alpha,
                                            const Tensor& grad_context) {
  int64_t batch = e.size(0), steps = e.size(1), hidden = e.size(2), count = batch * steps;
  const T* e_pointer = in<T>(e, "e", {batch, steps, hidden});
  const T* alpha_pointer = in<T>(alpha, "alpha", {batch, steps});
  const T* context_pointer = in<T>(grad_context, "grad_context", {batch, hidden});
  Tensor score = make<T>(e, {batch, steps}), grad_e = make<T>(e, {batch, steps, hidden});
  Tensor grad_q = make<T>(e, {batch, hidden});
  T root = px::sqrt(static_cast<T>(hidden));
  Spans spans{hidden, On::span(hidden)};
  On::rows(e, groups<On>(count), 32,
           AttentionDot<T, On::group>{e_pointer, context_pointer, out<T>(score), count, steps, hidden, false, T(1)});
  On::rows(e, groups<On>(batch), 16,
           AttentionScoreBwd<T, On::group>{alpha_pointer, out<T>(score), batch, steps, root});
  On::rows(e, batch * spans.per_row(), 64, AttentionPool<T>{e_pointer, out<T>(score), out<T>(grad_q), steps, spans});
  On::rows(e, count * spans.per_row(), 512,
           AttentionGradE<T>{alpha_pointer, out<T>(score), in<T>(q, "q", {hidden}), context_pointer, out<T>(grad_e),
                             steps, spans});
  return {grad_e, grad_q};
}
template <class On> std::tuple<Tensor, Tensor> attention_bwd(Tensor e, Tensor q, Tensor alpha, Tensor grad_context) {
  FOX_CHECK(e.dim() == 3, "e must be 3-D");
  return is_double(e) ? attention_bwd_as<On, double>(e, q, alpha, grad_context)
                      : attention_bwd_as<On, float>(e, q, alpha, grad_context);
}
}  // namespace fox
