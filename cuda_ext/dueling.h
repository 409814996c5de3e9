// The dueling head: value and advantages composed, and a gradient of the composition taken apart.
#pragma once
#include "check.h"
#include "select.h"

#include <tuple>

namespace fox {
// (v + a) - mean, the mean an ascending sum divided by A.
template <class T> struct DuelingCompose {
  const T *v, *a;
  T* composed;
  int64_t actions;
  FOX_HD void operator()(int64_t b) const {
    const T* row = a + b * actions;
    T sum = T(0);
    for (int64_t j = 0; j < actions; ++j) sum = sum + row[j];
    T mean = sum / static_cast<T>(actions);
    for (int64_t j = 0; j < actions; ++j) composed[b * actions + j] = px::one_nan((v[b] + row[j]) - mean);
  }
};

// grad_v is an ascending sum; grad_a = grad - grad_v / A.
template <class T> struct DuelingSplit {
  const T* grad;
  T *grad_v, *grad_a;
  int64_t actions;
  FOX_HD void operator()(int64_t b) const {
    const T* row = grad + b * actions;
    T sum = T(0);
    for (int64_t j = 0; j < actions; ++j) sum = sum + row[j];
    T share = sum / static_cast<T>(actions);
    grad_v[b] = px::one_nan(sum);
    for (int64_t j = 0; j < actions; ++j) grad_a[b * actions + j] = px::one_nan(row[j] - share);
  }
};

template <class On, class T> Tensor dueling_compose_as(const Tensor& v, const Tensor& a) {
  int64_t batch = a.size(0), actions = a.size(1);
  Tensor composed = make<T>(a, {batch, actions});
  On::rows(a, batch, grain_of(actions),
           DuelingCompose<T>{in<T>(v, "v", {batch, 1}), in<T>(a, "a", {batch, actions}), out<T>(composed), actions});
  return composed;
}
template <class On> Tensor dueling_compose(Tensor v, Tensor a) {
  FOX_CHECK(a.dim() == 2, "dueling_compose takes 2-D advantages");
  return is_double(a) ? dueling_compose_as<On, double>(v, a) : dueling_compose_as<On, float>(v, a);
}

template <class On, class T> std::tuple<Tensor, Tensor> dueling_split_as(const Tensor& grad) {
  int64_t batch = grad.size(0), actions = grad.size(1);
  Tensor grad_v = make<T>(grad, {batch, 1}), grad_a = make<T>(grad, {batch, actions});
  On::rows(grad, batch, grain_of(actions),
           DuelingSplit<T>{in<T>(grad, "grad", {batch, actions}), out<T>(grad_v), out<T>(grad_a), actions});
  return {grad_v, grad_a};
}
template <class On> std::tuple<Tensor, Tensor> dueling_split(Tensor grad) {
  FOX_CHECK(grad.dim() == 2, "dueling_split takes a 2-D gradient");
  return is_double(grad) ? dueling_split_as<On, double>(grad) : dueling_split_as<On, float>(grad);
}
}  // namespace fox
