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

// A block takes some of the m of one row, in vectors of four n.
struct OuterTile {
  static constexpr int deep = 4, most = deep * accumulate_threads;
  int quads, tall;
  int64_t per_row;
  explicit OuterTile(const AddOuter& of)
      : quads(static_cast<int>(of.n / 4)), tall(most / quads), per_row((of.m + tall - 1) / tall) {}
};

static __global__ void __launch_bounds__(accumulate_threads)
    accumulate_outer_kernel(const __grid_constant__ AddOuter of, OuterTile tile) {
  const int64_t row = blockIdx.x / tile.per_row, first = blockIdx.x % tile.per_row * tile.tall;
  const int tall = static_cast<int>(of.m - first < tile.tall ? of.m - first : tile.tall);
  float4 *to = reinterpret_cast<float4*>(of.sum + (row * of.m + first) * of.n), sum[OuterTile::deep] = {};
#pragma unroll
  for (int k = 0; k < OuterTile::deep; ++k) {
    const int e = k * accumulate_threads + threadIdx.x;
    if (!of.begin && e < tall * tile.quads) sum[k] = to[e];
  }
  for (int64_t pass = 0; pass < of.passes; ++pass) {
    const float* a = of.a[pass] + row * of.m + first;
    const float4* b = reinterpret_cast<const float4*>(of.b[pass] + row * of.n);
#pragma unroll
    for (int k = 0; k < OuterTile::deep; ++k) {
      const int e = k * accumulate_threads + threadIdx.x;
      if (e >= tall * tile.quads) continue;
      const float factor = a[e / tile.quads];
      const float4 by = b[e % tile.quads];
      sum[k] = make_float4(AddOuter::add(sum[k].x, factor, by.x), AddOuter::add(sum[k].y, factor, by.y),
                           AddOuter::add(sum[k].z, factor, by.z), AddOuter::add(sum[k].w, factor, by.w));
    }
  }
#pragma unroll
  for (int k = 0; k < OuterTile::deep; ++k) {
    const int e = k * accumulate_threads + threadIdx.x;
    if (e < tall * tile.quads) to[e] = sum[k];
  }
}

inline bool staged(const Tensor& like, int64_t, const AddOuter& of) {
  uintptr_t places = reinterpret_cast<uintptr_t>(of.sum);
  for (int64_t pass = 0; pass < of.passes; ++pass) places |= reinterpret_cast<uintptr_t>(of.b[pass]);
  if (places % 16 != 0 || of.n % 4 != 0 || of.n / 4 > OuterTile::most) return false;
  const OuterTile tile(of);
  launch("accumulate_outer_kernel", accumulate_outer_kernel,
         {blocks_of(of.rows * tile.per_row, 1), accumulate_threads}, like, of, tile);
  return true;
}
}  // namespace fox
