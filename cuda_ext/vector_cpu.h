// GCC's vectors, and the turning of a square of them.
#pragma once
#include "row.h"

namespace fox {
template <class T, int Lanes> struct Vector {
  typedef T type __attribute__((vector_size(sizeof(T) * Lanes), aligned(sizeof(T)), may_alias));
};

// fma(factor, b, sum) in each lane. Written so, into a vector of its own, g++ makes one instruction of the loop.
template <class T, int Lanes, class Vec = typename Vector<T, Lanes>::type>
FOX_HD Vec fma_lanes(T factor, Vec b, Vec sum) {
  Vec result;
  FOX_LANES
  for (int j = 0; j < Lanes; ++j) result[j] = px::fma(factor, b[j], sum[j]);
  return result;
}
template <class T, int Lanes, class Vec = typename Vector<T, Lanes>::type>
FOX_HD Vec fma_lanes(Vec a, Vec b, Vec sum) {
  Vec result;
  FOX_LANES
  for (int j = 0; j < Lanes; ++j) result[j] = px::fma(a[j], b[j], sum[j]);
  return result;
}

// Rows 0 … Lanes-1 become columns: each stage interleaves the first half of the rows with the second.
template <int Lanes, class Vec> FOX_HD void transpose(Vec* rows) {
  typename Vector<int32_t, Lanes>::type low, high;
  for (int j = 0; j < Lanes; ++j) {
    low[j] = j / 2 + j % 2 * Lanes;
    high[j] = low[j] + Lanes / 2;
  }
#pragma GCC unroll 4
  for (int stage = 1; stage < Lanes; stage *= 2) {
    Vec next[Lanes];
#pragma GCC unroll 8
    for (int r = 0; r < Lanes / 2; ++r) {
      next[2 * r] = __builtin_shuffle(rows[r], rows[r + Lanes / 2], low);
      next[2 * r + 1] = __builtin_shuffle(rows[r], rows[r + Lanes / 2], high);
    }
#pragma GCC unroll 16
    for (int r = 0; r < Lanes; ++r) rows[r] = next[r];
  }
}

}  // namespace fox
