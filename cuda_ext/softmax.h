// Softmax of a row: maximum, portable exp of the difference, ascending sum from +0, division.
#pragma once
#include "select.h"

namespace fox {
template <class T> struct Softmax {
  T max, sum, log_sum;
  FOX_HD T log_of(T x) const { return (x - max) - log_sum; }
};

// Writes exp(x_j - max) to e; e_j / sum is then the probability, log_of(x_j) its logarithm. e may not be x.
template <class T> FOX_HD Softmax<T> softmax_row(const T* __restrict__ x, T* __restrict__ e, int64_t n) {
  T max = largest(x, n), sum = T(0);
  for (int64_t j = 0; j < n; ++j) e[j] = px::exp(x[j] - max);
  for (int64_t j = 0; j < n; ++j) sum = sum + e[j];
  return {max, sum, px::log(sum)};
}
}  // namespace fox
