// What the encoder's rows share: spans of a row, and sums and softmax of several rows side by side.
#pragma once
#include "check.h"
#include "portable.h"

// What g++ is told of the loop below: unroll it eight times; its turns do not depend on one another.
#ifdef __CUDACC__
#define FOX_UNROLL
#define FOX_LANES
#else
#define FOX_UNROLL _Pragma("GCC unroll 8")
#define FOX_LANES _Pragma("GCC ivdep")
#endif

namespace fox {
// Rows of `size` elements cut into spans: whole rows for a processor's vectors, single elements for a GPU's threads.
struct Spans {
  int64_t size, span;
  FOX_HD int64_t per_row() const { return span == 1 ? size : (size + span - 1) / span; }
  FOX_HD int64_t row(int64_t i) const { return quotient(i, per_row()); }
  FOX_HD int64_t begin(int64_t i) const { return (i - row(i) * per_row()) * span; }
  FOX_HD int64_t end(int64_t i) const { return begin(i) + span < size ? begin(i) + span : size; }
};

// Calls row.template rows<G>(first) for group i of G rows and rows<1> for what is left: the additions of one row wait
// for each other, those of different rows do not.
template <int G, class Row> FOX_HD void grouped(const Row& row, int64_t i, int64_t rows) {
  int64_t first = i * G;
  if (first + G <= rows) return row.template rows<G>(first);
  for (; first < rows; ++first) row.template rows<1>(first);
}
template <class On> int64_t groups(int64_t rows) { return (rows + On::group - 1) / On::group; }

// sum[r] = sum over j ascending of x[r, j].
template <int G, class T> FOX_HD void sum_rows_of(const T* x, int64_t n, T* sum) {
  for (int r = 0; r < G; ++r) sum[r] = T(0);
  FOX_WALK
  for (int64_t j = 0; j < n; ++j)
    FOX_UNROLL
    for (int r = 0; r < G; ++r) sum[r] = sum[r] + x[r * n + j];
}

// dot[r] = sum over j ascending of x[r, j] y[r * y_stride + j], a fused chain.
template <int G, class T> FOX_HD void dot_rows_of(const T* x, const T* y, int64_t y_stride, int64_t n, T* dot) {
  for (int r = 0; r < G; ++r) dot[r] = T(0);
  FOX_WALK
  for (int64_t j = 0; j < n; ++j)
    FOX_UNROLL
    for (int r = 0; r < G; ++r) dot[r] = px::fma(x[r * n + j], y[r * y_stride + j], dot[r]);
}

template <int G, class T> FOX_HD void largest_of_rows(const T* x, int64_t n, T* top) {
  for (int r = 0; r < G; ++r) top[r] = x[r * n];
  FOX_WALK
  for (int64_t j = 1; j < n; ++j)
    FOX_UNROLL
    for (int r = 0; r < G; ++r) top[r] = x[r * n + j] > top[r] ? x[r * n + j] : top[r];
}

// In place: maximum, exp of the difference, ascending sum, division.
template <int G, class T> FOX_HD void softmax_rows_of(T* x, int64_t n) {
  T top[G], sum[G];
  largest_of_rows<G>(x, n, top);
  for (int r = 0; r < G; ++r)
    for (int64_t j = 0; j < n; ++j) x[r * n + j] = px::exp(x[r * n + j] - top[r]);
  sum_rows_of<G>(x, n, sum);
  for (int r = 0; r < G; ++r)
    for (int64_t j = 0; j < n; ++j) x[r * n + j] = px::one_nan(x[r * n + j] / sum[r]);
}
}  // namespace fox
