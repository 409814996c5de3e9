// Schedules rows on CPU threads, each row compiled for plain x86-64, AVX2+FMA and AVX-512 and chosen at run time.
#pragma once
#include "check.h"
#include "hd.h"
#include "simd.h"

namespace fox {
// Rows written in vectors of one level's floats have a wide<Lanes>(i) in place of (i).
template <int Lanes, class Row> FOX_HD void each(int64_t begin, int64_t end, const Row& row) {
  for (int64_t i = begin; i < end; ++i) {
    if constexpr (requires { row.template wide<Lanes>(i); })
      row.template wide<Lanes>(i);
    else
      row(i);
  }
}
template <class Row> void rows_plain(int64_t begin, int64_t end, Row row) { each<4>(begin, end, row); }
#if defined(__x86_64__)
template <class Row> FOX_AVX2 void rows_avx2(int64_t begin, int64_t end, Row row) { each<8>(begin, end, row); }
template <class Row> FOX_AVX512 void rows_avx512(int64_t begin, int64_t end, Row row) { each<16>(begin, end, row); }
#endif

// Calls row(i) for i in [begin, end) on this thread.
template <class Row> void rows_here(int64_t begin, int64_t end, Row row) {
#if defined(__x86_64__)
  if (simd_level() == Simd::avx512) return rows_avx512(begin, end, row);
  if (simd_level() == Simd::avx2) return rows_avx2(begin, end, row);
#endif
  rows_plain(begin, end, row);
}

struct Cpu {
  // Calls row(i) for i in [0, n), in parallel pieces of at least `grain` rows. Rows write disjoint elements, so
  // neither the number of threads nor the instruction set shows in the result.
  template <class Row> static void rows(const Tensor&, int64_t n, int64_t grain, Row row) {
    torch::stable::parallel_for(0, n, grain, [&](int64_t begin, int64_t end) { rows_here(begin, end, row); });
  }
};
}  // namespace fox
