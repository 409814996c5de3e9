// Sums kept over several passes on the GPU: a block a span, each thread's elements read before any is written.
#pragma once
#include "accumulate.h"
#include "launch.cuh"

namespace fox {
constexpr int accumulate_threads = 256;

static __global__ void __launch_bounds__(accumulate_threads) accumulate_kernel(const __grid_constant__ AddSpan add) {
  constexpr int deep = AddSpan::elements / accumulate_threads;
  const Kept of = add.span(blockIdx.x);
  float sum[deep], fresh[deep];
#pragma unroll
  for (int k = 0; k < deep; ++k) {
    const int i = k * accumulate_threads + threadIdx.x;
    if (i >= of.size) continue;
    fresh[k] = of.fresh[i];
    sum[k] = add.begin ? 0.f : of.sum[i];
  }
#pragma unroll
  for (int k = 0; k < deep; ++k) {
    const int i = k * accumulate_threads + threadIdx.x;
    if (i < of.size) of.sum[i] = AddSpan::add(sum[k], fresh[k]);
  }
}

inline bool staged(const Tensor& like, int64_t spans, const AddSpan& add) {
  launch("accumulate_kernel", accumulate_kernel, {blocks_of(spans, 1), accumulate_threads}, like, add);
  return true;
}
}  // namespace fox
