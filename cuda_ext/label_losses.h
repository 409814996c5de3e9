// Cross-entropies of labels, -1 where there is none yet.
#pragma once
#include "chunks.h"
#include "losses.h"

namespace fox {
FOX_HD bool is_label(int64_t label, int64_t n) { return label >= 0 && label < n; }
template <class T> FOX_HD T unlabelled(int64_t label) { return label == -1 ? T(0) : T(px::nan_bits()); }
template <class T> FOX_HD T label_loss(Softmax<T> softmax, T x) { return softmax.log_sum - (x - softmax.max); }
template <class T> FOX_HD T label_gradient(T p, bool labelled, T divisor) {
  return px::one_nan((p - (labelled ? T(1) : T(0))) / divisor);
}

// log sum - (l[label] - max); grad = (p - 1_label) / divisor. A label of -1 gives +0 and gradients of +0; one outside
// [0, n) gives NaN.
template <class T> FOX_HD T cross_entropy(const T* x, T* grad, int64_t n, int64_t label, T divisor) {
  if (!is_label(label, n)) {
    fill(grad, n, unlabelled<T>(label));
    return unlabelled<T>(label);
  }
  Softmax<T> softmax = softmax_row(x, grad, n);
  for (int64_t j = 0; j < n; ++j) grad[j] = label_gradient(grad[j] / softmax.sum, j == label, divisor);
  return label_loss(softmax, x[label]);
}

// row = the horizons' losses added ascending, divided by S whatever was skipped; divisor S B.
template <class T> struct FrdLoss {
  const T* logits;
  const int32_t* label;
  T *row_loss, *grad;
  int64_t batch, horizons, bins;
  FOX_HD T divisor() const { return static_cast<T>(horizons * batch); }
  FOX_HD void operator()(int64_t b) const {
    T sum = T(0);
    for (int64_t row = b * horizons; row < (b + 1) * horizons; ++row)
      sum = sum + cross_entropy(logits + row * bins, grad + row * bins, bins, label[row], divisor());
    row_loss[b] = px::one_nan(sum / static_cast<T>(horizons));
  }
};

template <class On, class T> RowLoss frd_loss_as(const Tensor& logits, const Tensor& label) {
  int64_t batch = logits.size(0), horizons = logits.size(1), bins = logits.size(2);
  Tensor row_loss = make<T>(logits, {batch}), grad = make<T>(logits, {batch, horizons, bins});
  On::rows(logits, batch, grain_of(8 * horizons * bins),
           FrdLoss<T>{in<T>(logits, "logits", {batch, horizons, bins}), in<int32_t>(label, "label", {batch, horizons}),
                      out<T>(row_loss), out<T>(grad), batch, horizons, bins});
  return {row_loss, grad};
}
template <class On> RowLoss frd_loss(Tensor logits, Tensor label) {
  FOX_CHECK(logits.dim() == 3 && logits.size(1) > 0 && logits.size(2) > 0, "frd_loss takes 3-D logits, none empty");
  return is_double(logits) ? frd_loss_as<On, double>(logits, label) : frd_loss_as<On, float>(logits, label);
}

struct CountLabelled {
  const int32_t* label;
  int32_t* count;
  int64_t rows;
  using Part = int32_t;
  FOX_HD void operator()(int64_t) const { in_chunks(*this); }
  FOX_HD Part part(int64_t begin, int64_t end) const {
    int32_t labelled = 0;
    FOX_WALK
    for (int64_t b = begin; b < end; ++b) labelled += label[b] != -1;
    return labelled;
  }
  FOX_HD static Part add(Part a, Part b) { return a + b; }
  FOX_HD void finish(Part total) const { *count = total < 1 ? 1 : total; }
};

template <class T> struct OutcomeLoss {
  const T* logits;
  const int32_t *label, *count;
  T *row_loss, *grad;
  int64_t outcomes;
  FOX_HD void operator()(int64_t b) const {
    int64_t at = b * outcomes;
    row_loss[b] = px::one_nan(cross_entropy(logits + at, grad + at, outcomes, label[b], static_cast<T>(count[0])));
  }
};

template <class On, class T> RowLoss outcome_loss_as(const Tensor& logits, const Tensor& label) {
  int64_t batch = logits.size(0), outcomes = logits.size(1);
  Tensor row_loss = make<T>(logits, {batch}), grad = make<T>(logits, {batch, outcomes});
  Tensor count = make<int32_t>(logits, {1});
  const int32_t* labels = in<int32_t>(label, "label", {batch});
  On::rows(logits, 1, 1, CountLabelled{labels, out<int32_t>(count), batch});
  On::rows(logits, batch, grain_of(8 * outcomes),
           OutcomeLoss<T>{in<T>(logits, "logits", {batch, outcomes}), labels, out<int32_t>(count), out<T>(row_loss),
                          out<T>(grad), outcomes});
  return {row_loss, grad};
}
template <class On> RowLoss outcome_loss(Tensor logits, Tensor label) {
  FOX_CHECK(logits.dim() == 2 && logits.size(1) > 0, "outcome_loss takes 2-D logits with at least one outcome");
  return is_double(logits) ? outcome_loss_as<On, double>(logits, label) : outcome_loss_as<On, float>(logits, label);
}
}  // namespace fox
