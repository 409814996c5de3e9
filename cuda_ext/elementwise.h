// The portable functions as operators, so that tests can hold every device against float64.
#pragma once
#include "check.h"
#include "portable.h"

namespace fox {
template <class T, class F> struct Map {
  const T* x;
  T* y;
  FOX_HD void operator()(int64_t i) const { y[i] = F::of(x[i]); }
};

template <class T> struct Power {
  const T *x, *exponent;
  T* y;
  FOX_HD void operator()(int64_t i) const { y[i] = px::pow(x[i], exponent[i]); }
};

#define FOX_PORTABLE(name) \
  struct Px_##name { template <class T> FOX_HD static T of(T x) { return px::name(x); } };
FOX_PORTABLE(exp) FOX_PORTABLE(log) FOX_PORTABLE(log1p) FOX_PORTABLE(tanh) FOX_PORTABLE(sigmoid)
FOX_PORTABLE(softplus) FOX_PORTABLE(sin) FOX_PORTABLE(cos)
#undef FOX_PORTABLE

template <class On, class T, class F> void map(const Tensor& x, Tensor& y) {
  int64_t n = x.size(0);
  On::rows(x, n, 16384, Map<T, F>{in<T>(x, "x", {n}), out<T>(y)});
}

template <class On, class T> Tensor portable_as(const Tensor& x, int64_t which) {
  Tensor y = make<T>(x, {x.size(0)});
  switch (which) {
    case 0: map<On, T, Px_exp>(x, y); break;
    case 1: map<On, T, Px_log>(x, y); break;
    case 2: map<On, T, Px_log1p>(x, y); break;
    case 3: map<On, T, Px_tanh>(x, y); break;
    case 4: map<On, T, Px_sigmoid>(x, y); break;
    case 5: map<On, T, Px_softplus>(x, y); break;
    case 6: map<On, T, Px_sin>(x, y); break;
    case 7: map<On, T, Px_cos>(x, y); break;
    default: FOX_CHECK(false, "portable knows functions 0 to 7, got ", which);
  }
  return y;
}
template <class On> Tensor portable(Tensor x, int64_t which) {
  FOX_CHECK(x.dim() == 1, "portable takes a 1-D tensor");
  return is_double(x) ? portable_as<On, double>(x, which) : portable_as<On, float>(x, which);
}

template <class On, class T> Tensor portable_pow_as(const Tensor& x, const Tensor& y) {
  int64_t n = x.size(0);
  Tensor result = make<T>(x, {n});
  On::rows(x, n, 8192, Power<T>{in<T>(x, "x", {n}), in<T>(y, "y", {n}), out<T>(result)});
  return result;
}
template <class On> Tensor portable_pow(Tensor x, Tensor y) {
  FOX_CHECK(x.dim() == 1, "portable_pow takes 1-D tensors");
  return is_double(x) ? portable_pow_as<On, double>(x, y) : portable_pow_as<On, float>(x, y);
}
}  // namespace fox
