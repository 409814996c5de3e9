// The instruction sets that a processor's kernels are compiled for, and the one that this processor runs.
#pragma once
#include "hd.h"

#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#define FOX_AVX2 __attribute__((target("arch=x86-64-v3")))
#define FOX_AVX512 __attribute__((target("arch=x86-64-v4,prefer-vector-width=512")))
#endif

namespace fox {
enum class Simd { plain, avx2, avx512 };

// FOXFLOW_SIMD=plain|avx2|avx512 caps what the processor offers; bits do not depend on it.
inline Simd simd_level() {
#if defined(__x86_64__)
  static const Simd level = [] {
    __builtin_cpu_init();
    Simd best = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512cd")
                    ? Simd::avx512
                : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? Simd::avx2
                                                                                  : Simd::plain;
    const char* cap = std::getenv("FOXFLOW_SIMD");
    if (cap && !std::strcmp(cap, "plain")) return Simd::plain;
    if (cap && !std::strcmp(cap, "avx2") && best == Simd::avx512) return Simd::avx2;
    return best;
  }();
  return level;
#else
  return Simd::plain;
#endif
}
}  // namespace fox
