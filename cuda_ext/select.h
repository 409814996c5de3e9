// Choices made by comparison alone: fmin and fmax leave the sign of zero open.
#pragma once
#include "portable.h"

#include <cstdint>

namespace fox {
// Whether x comes before best as the largest; the first NaN counts as the largest of all, as in torch.
template <class T> FOX_HD bool larger(T x, T best) { return x > best || (x != x && best == best); }

// The largest of n >= 1 elements.
template <class T> FOX_HD T largest(const T* x, int64_t n) {
  T best = x[0];
  for (int64_t j = 1; j < n; ++j) best = larger(x[j], best) ? x[j] : best;
  return best;
}

template <class T> FOX_HD T clip(T x, T low, T high) { return x < low ? low : (x > high ? high : x); }

// Huber's loss with threshold 1; its slope is clip(x, -1, 1).
template <class T> FOX_HD T huber(T x) {
  T size = px::abs(x);
  return size <= T(1) ? T(0.5) * x * x : size - T(0.5);
}

template <class T> FOX_HD void fill(T* x, int64_t n, T value) {
  for (int64_t j = 0; j < n; ++j) x[j] = value;
}

// Rows a thread should take at least, so that a piece of rows of `work` elements is worth a thread.
inline int64_t grain_of(int64_t work) { return 1 + 16384 / (work + 1); }
}  // namespace fox
