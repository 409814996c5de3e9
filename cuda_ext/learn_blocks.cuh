// Norms on the GPU: what one chain reads is fetched by a whole block.
#pragma once
#include "launch.cuh"
#include "learn.h"
#include "row_tiles.cuh"

namespace fox {
constexpr unsigned learn_threads = 256;

struct SquaresTile {
  using Element = float;
  static constexpr int planes = 1, rounds = 1, walks = 1;
  SquaresOfChunk of;
  __device__ void copy(Copies<float> to, int64_t chunk, int j) const {
    Groups::Chunk at = of.groups.chunk(chunk);
    if (at.begin + j < at.end) *to.row = of.x[at.begin + j];
  }
  template <int> __device__ float walk(int, Copies<float> x, int64_t chunk) const {
    Groups::Chunk at = of.groups.chunk(chunk);
    return of.sums[chunk] = of.sum_of(x.row, at.end - at.begin);
  }
  template <int> __device__ void each(Copies<float>, const float*, int64_t, int) const {}
};

static __global__ void __launch_bounds__(learn_threads) norm_kernel(NormOfGroup of) {
  constexpr int piece = 4096;
  __shared__ float sums[piece];
  const int64_t begin = of.groups.chunks_before(blockIdx.x), count = of.groups.chunks(blockIdx.x);
  float sum = 0.f;
  for (int64_t first = 0; first < count; first += piece) {
    const int size = count - first < piece ? static_cast<int>(count - first) : piece;
    __syncthreads();
    for (int i = threadIdx.x; i < size; i += learn_threads) sums[i] = of.sums[begin + first + i];
    __syncthreads();
    if (threadIdx.x == 0) sum = of.add(sum, sums, size);
  }
  if (threadIdx.x == 0) of.norm[blockIdx.x] = px::sqrt(sum);
}

inline bool staged(const Tensor& like, int64_t chunks, const SquaresOfChunk& of) {
  return launch_tiles(like, SquaresTile{of}, chunks, norm_chunk);
}
inline bool staged(const Tensor& like, int64_t groups, const NormOfGroup& of) {
  launch("norm_kernel", norm_kernel, {blocks_of(groups, 1), learn_threads}, like, of);
  return true;
}
}  // namespace fox
