// Rows whose sums are one chain each, on the GPU: a block copies some rows to shared memory, each warp some of them; then,
// in as many rounds as the operator has, one thread walks each row and all threads take its elements.
#pragma once
#include "launch.cuh"
#include "row.h"
#include "staging.cuh"

namespace fox {
constexpr int few_rows = 8, many_rows = 32, tile_warps = 8, warp_size = 32, most_facts = 2;
constexpr unsigned tile_threads = tile_warps * warp_size;

// A row's copies side by side in shared memory: `planes` of them, `apart` elements from one to the next.
template <class T> struct Copies {
  T* row;
  int apart;
  __device__ T* plane(int p) const { return row + p * apart; }
};

// What walking the rows found out, for all threads.
template <class T, int Rows> struct Facts {
  T value[most_facts][Rows];
};

template <int Round, int Rows, class Tile, class T>
__device__ void run_round(const Tile& of, T* shared, Facts<T, Rows>& facts, int64_t count, int size) {
  const int stride = size | 1, warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  const int64_t first = blockIdx.x * static_cast<int64_t>(Rows);
  __syncthreads();
  if (warp < Tile::walks && lane < Rows && first + lane < count)
    facts.value[Round + warp][lane] = of.template walk<Round>(warp, Copies<T>{shared + lane * stride, Rows * stride},
                                                              first + lane);
  __syncthreads();
  for (int row = warp; row < Rows && first + row < count; row += tile_warps) {
    const T found[most_facts] = {facts.value[0][row], facts.value[1][row]};
    for (int j = lane; j < size; j += warp_size)
      of.template each<Round>(Copies<T>{shared + row * stride + j, Rows * stride}, found, first + row, j);
  }
}

template <int Rows, class Tile>
__global__ void __launch_bounds__(tile_threads) tile_kernel(Tile of, int64_t count, int size) {
  using T = typename Tile::Element;
  __shared__ Facts<T, Rows> facts;
  T* shared = shared_memory<T>();
  const int stride = size | 1, warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  const int64_t first = blockIdx.x * static_cast<int64_t>(Rows);
  for (int row = warp; row < Rows && first + row < count; row += tile_warps)
#pragma unroll 4
    for (int j = lane; j < size; j += warp_size)
      of.copy(Copies<T>{shared + row * stride + j, Rows * stride}, first + row, j);
  run_round<0>(of, shared, facts, count, size);
  if constexpr (Tile::rounds == 2) run_round<1>(of, shared, facts, count, size);
}

template <int Rows, class Tile> bool launch_tiles_of(const Tensor& like, const Tile& of, int64_t count, int64_t size) {
  using T = typename Tile::Element;
  const size_t bytes = Tile::planes * Rows * (size | 1) * sizeof(T);
  if (bytes + sizeof(Facts<T, Rows>) > most_shared_bytes) return false;
  launch("tile_kernel", tile_kernel<Rows, Tile>, {blocks_of(count, Rows), tile_threads, bytes}, like, of, count,
         static_cast<int>(size));
  return true;
}

// A walk takes as long for many rows as for few; few are spread over more multiprocessors.
template <class Tile> bool launch_tiles(const Tensor& like, const Tile& of, int64_t count, int64_t size) {
  const bool many = count >= 2 * many_rows * processors_of(like);
  return (many && launch_tiles_of<many_rows>(like, of, count, size)) || launch_tiles_of<few_rows>(like, of, count, size);
}
}  // namespace fox
