// Rows whose sums are one chain each, on the GPU: a block copies eight rows to shared memory, a warp a row; then, in as
// many rounds as the operator has, one thread walks each row and all threads take its elements.
#pragma once
#include "launch.cuh"
#include "row.h"
#include "staging.cuh"

namespace fox {
constexpr int tile_rows = 8, warp_size = 32, most_facts = 2;
constexpr unsigned tile_threads = tile_rows * warp_size;

// A row's copies side by side in shared memory: `planes` of them, `apart` elements from one to the next.
template <class T> struct Copies {
  T* row;
  int apart;
  __device__ T* plane(int p) const { return row + p * apart; }
};

// What walking a row found out, for all threads.
template <class T> struct Facts {
  T value[most_facts][tile_rows];
};

template <int Round, class Tile, class T>
__device__ void run_round(const Tile& of, T* shared, Facts<T>& facts, int64_t count, int64_t size) {
  const int stride = size | 1, warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  const int64_t first = blockIdx.x * static_cast<int64_t>(tile_rows);
  __syncthreads();
  if (warp < Tile::walks && lane < tile_rows && first + lane < count)
    facts.value[Round + warp][lane] = of.template walk<Round>(warp, Copies<T>{shared + lane * stride, tile_rows * stride},
                                                              first + lane);
  __syncthreads();
  if (first + warp >= count) return;
  const T found[most_facts] = {facts.value[0][warp], facts.value[1][warp]};
  for (int j = lane; j < size; j += warp_size)
    of.template each<Round>(Copies<T>{shared + warp * stride + j, tile_rows * stride}, found, first + warp, j);
}

template <class Tile> __global__ void __launch_bounds__(tile_threads) tile_kernel(Tile of, int64_t count, int64_t size) {
  using T = typename Tile::Element;
  __shared__ Facts<T> facts;
  T* shared = shared_memory<T>();
  const int stride = size | 1, warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  const int64_t row = blockIdx.x * static_cast<int64_t>(tile_rows) + warp;
  if (row < count)
#pragma unroll 4
    for (int j = lane; j < size; j += warp_size)
      of.copy(Copies<T>{shared + warp * stride + j, tile_rows * stride}, row, j);
  run_round<0>(of, shared, facts, count, size);
  if constexpr (Tile::rounds == 2) run_round<1>(of, shared, facts, count, size);
}

template <class Tile> bool launch_tiles(const Tensor& like, const Tile& of, int64_t count, int64_t size) {
  size_t bytes = Tile::planes * tile_rows * (size | 1) * sizeof(typename Tile::Element);
  if (bytes + sizeof(Facts<typename Tile::Element>) > most_shared_bytes) return false;
  launch("tile_kernel", tile_kernel<Tile>, {blocks_of(count, tile_rows), tile_threads, bytes}, like, of, count, size);
  return true;
}
}  // namespace fox
