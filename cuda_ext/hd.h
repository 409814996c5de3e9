// Functions that exist once for host and device; always inlined, so that each caller's instruction set applies.
#pragma once
#include <cstdint>

#ifdef __CUDACC__
#define FOX_HD __host__ __device__ __forceinline__
#define FOX_WALK _Pragma("unroll 16")  // the loop below is a chain: read ahead of it
#else
#define FOX_HD inline __attribute__((always_inline))
#define FOX_WALK
#endif

namespace fox {
// i / n of what is not negative, by 32 bits where they hold both: 64 take a GPU's thread longer than most rows.
FOX_HD int64_t quotient(int64_t i, int64_t n) {
  return (i | n) >> 32 ? i / n : static_cast<uint32_t>(i) / static_cast<uint32_t>(n);
}
}  // namespace fox
