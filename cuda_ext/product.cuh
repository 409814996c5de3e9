// Matrix products on the GPU: tiles of a and b in shared memory, copied ahead of their use; k ascending in each element.
#pragma once
#include "launch.cuh"
#include "linalg.h"
#include "staging.cuh"

namespace fox {
// A block's tile of c, Rows x Columns, a thread's share of it, R x C, and the ring of k-tiles Deep wide.
template <class T, int Rows, int Columns, int R, int C, int Deep, int Slots> struct Tiling {
  static constexpr int rows = Rows, columns = Columns, r = R, c = C, deep = Deep, slots = Slots;
  static constexpr int across = Columns / C, threads = Rows / R * across, quad = 4;
  static constexpr int stride = Deep + quad;  // rows that start 4 banks apart serve neighbouring threads at once
  T a[Slots][Rows * stride], b[Slots][Columns * stride];
};
template <class T> using LargeTiles = Tiling<T, 64, 64, 8, 4, 16, 4>;
template <class T> using MiddleTiles = Tiling<T, 32, 32, 4, 4, 32, 4>;
template <class T> using SmallTiles = Tiling<T, 16, 16, 2, 2, sizeof(T) == 4 ? 64 : 32, 4>;

// Asks for Size rows of one operand, k side by side in shared memory whichever way they lie: Lanes threads take
// neighbouring k. Elements past the operand's end are left as they were; they reach no element of c.
template <class Tiles, int Size, int Lanes, class T>
__device__ void fetch_tile(T* to, const T* from, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t depth) {
  constexpr int beside = Tiles::threads / Lanes;
  int k0 = Lanes == 4 ? threadIdx.x / 8 % 4 : threadIdx.x % Lanes;
  int row0 = Lanes == 4 ? threadIdx.x % 8 + threadIdx.x / 32 * 8 : threadIdx.x / Lanes;
  from += row0 * row_stride + k0 * k_stride;
#pragma unroll
  for (int row = 0; row < Size; row += beside)
#pragma unroll
    for (int k = 0; k < Tiles::deep; k += Lanes)
      if (row0 + row < rows && k0 + k < depth)
        __pipeline_memcpy_async(to + (row0 + row) * Tiles::stride + k0 + k, from + row * row_stride + k * k_stride,
                                sizeof(T));
}

// The same where rows lie end to end in steps of 16 bytes.
template <class Tiles, int Size, class T>
__device__ void fetch_wide(T* to, const T* from, int64_t row_stride, int64_t rows, int64_t depth) {
  constexpr int wide = 16 / sizeof(T), lanes = Tiles::deep / wide, beside = Tiles::threads / lanes;
  int k = threadIdx.x % lanes * wide, row0 = threadIdx.x / lanes;
  from += row0 * row_stride + k;
#pragma unroll
  for (int row = 0; row < Size; row += beside)
    if (row0 + row < rows && k < depth)
      __pipeline_memcpy_async(to + (row0 + row) * Tiles::stride + k, from + row * row_stride, 16);
}

// One operand of a block: its rows, and how they are copied.
template <class Tiles, int Size, class T> struct Operand {
  const T* from;
  int64_t row_stride, k_stride, rows, depth;
  bool wide;
  __device__ Operand(const T* first, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t depth)
      : from(first), row_stride(row_stride), k_stride(k_stride), rows(rows), depth(depth),
        wide(k_stride == 1 && row_stride * sizeof(T) % 16 == 0 && depth * sizeof(T) % 16 == 0 &&
             reinterpret_cast<uintptr_t>(first) % 16 == 0) {}
  __device__ void fetch(T* to, int64_t k) const {
    const T* at = from + k * k_stride;
    if (wide) return fetch_wide<Tiles, Size>(to, at, row_stride, rows, depth - k);
    if (k_stride == 1) return fetch_tile<Tiles, Size, 16>(to, at, row_stride, 1, rows, depth - k);
    fetch_tile<Tiles, Size, 4>(to, at, row_stride, k_stride, rows, depth - k);
  }
};

// Adds up to four k: all of them, or `size`.
template <bool Whole, class Tiles, class T>
__device__ void add_quad(T (&sum)[Tiles::r][Tiles::c], const T* a, const T* b, int size) {
  constexpr int down = Tiles::rows / Tiles::r, quad = Tiles::quad;
  T x[Tiles::r][quad], y[Tiles::c][quad];
#pragma unroll
  for (int r = 0; r < Tiles::r; ++r)
#pragma unroll
    for (int k = 0; k < quad; ++k) x[r][k] = a[r * down * Tiles::stride + k];
#pragma unroll
  for (int c = 0; c < Tiles::c; ++c)
#pragma unroll
    for (int k = 0; k < quad; ++k) y[c][k] = b[c * Tiles::across * Tiles::stride + k];
#pragma unroll
  for (int k = 0; k < quad; ++k)
    if (Whole || k < size)
#pragma unroll
      for (int r = 0; r < Tiles::r; ++r)
#pragma unroll
        for (int c = 0; c < Tiles::c; ++c) sum[r][c] = px::fma(x[r][k], y[c][k], sum[r][c]);
}

template <class T, class Tiles> __global__ void __launch_bounds__(Tiles::threads) product_kernel(Product<T> p) {
  __shared__ __align__(16) Tiles tiles;
  constexpr int down = Tiles::rows / Tiles::r;
  const int64_t chunk = blockIdx.z, depth = p.depth(chunk);
  const int64_t row = blockIdx.x * static_cast<int64_t>(Tiles::rows);
  const int64_t column = blockIdx.y * static_cast<int64_t>(Tiles::columns);
  const Operand<Tiles, Tiles::rows, T> a(p.a + chunk * p.a_chunk + row * p.a_row, p.a_row, p.a_k, p.m - row, depth);
  const Operand<Tiles, Tiles::columns, T> b(p.b + chunk * p.b_chunk + column * p.b_column, p.b_column, p.b_k,
                                            p.n - column, depth);
  auto request = [&](int64_t k, int slot) {
    if (k < depth) {
      a.fetch(tiles.a[slot], k);
      b.fetch(tiles.b[slot], k);
    }
    __pipeline_commit();
  };
  for (int slot = 0; slot < Tiles::slots - 1; ++slot) request(slot * Tiles::deep, slot);
  const int x = threadIdx.x % Tiles::across, y = threadIdx.x / Tiles::across;
  T sum[Tiles::r][Tiles::c] = {};
  int slot = 0;
  for (int64_t k = 0; k < depth; k += Tiles::deep) {
    __pipeline_wait_prior(Tiles::slots - 2);
    __syncthreads();
    request(k + (Tiles::slots - 1) * Tiles::deep, (slot + Tiles::slots - 1) % Tiles::slots);
    const T *of_a = tiles.a[slot] + y * Tiles::stride, *of_b = tiles.b[slot] + x * Tiles::stride;
    if (depth - k >= Tiles::deep) {
#pragma unroll
      for (int at = 0; at < Tiles::deep; at += Tiles::quad) add_quad<true, Tiles>(sum, of_a + at, of_b + at, 0);
    } else {
      int left = static_cast<int>(depth - k);
      for (int at = 0; at < left; at += Tiles::quad) add_quad<false, Tiles>(sum, of_a + at, of_b + at, left - at);
    }
    slot = (slot + 1) % Tiles::slots;
  }
#pragma unroll
  for (int r = 0; r < Tiles::r; ++r)
#pragma unroll
    for (int c = 0; c < Tiles::c; ++c) {
      int64_t i = row + y + r * down, j = column + x + c * Tiles::across;
      if (i < p.m && j < p.n) p.c[(chunk * p.m + i) * p.n + j] = p.bias ? sum[r][c] + p.bias[j] : sum[r][c];
    }
}

// What a launch costs: turns of the busiest multiprocessor times its cycles a k, by the words that it reads from shared
// memory (32 a cycle, R + C a thread).
template <class Tiles, class T> int64_t cost_of(const Product<T>& p, int64_t processors) {
  int64_t blocks = p.chunks * ((p.m + Tiles::rows - 1) / Tiles::rows) * ((p.n + Tiles::columns - 1) / Tiles::columns);
  return (blocks + processors - 1) / processors * (Tiles::threads * (Tiles::r + Tiles::c));
}

template <class Tiles, class T> void launch_product(const Tensor& like, const Product<T>& p) {
  int64_t across = (p.n + Tiles::columns - 1) / Tiles::columns;
  FOX_CHECK(p.chunks <= 65535 && across <= 65535, "the product is too large for one launch");
  dim3 grid(blocks_of(p.m, Tiles::rows), static_cast<unsigned>(across), static_cast<unsigned>(p.chunks));
  launch("product_kernel", product_kernel<T, Tiles>, {grid, Tiles::threads}, like, p);
}

template <class T> void launch_product(const Tensor& like, const Product<T>& p) {
  if constexpr (sizeof(T) == 8) {
    launch_product<SmallTiles<T>>(like, p);
  } else {
    int64_t processors = processors_of(like), small = cost_of<SmallTiles<T>>(p, processors);
    int64_t middle = cost_of<MiddleTiles<T>>(p, processors), large = cost_of<LargeTiles<T>>(p, processors);
    if (small < middle && small < large) return launch_product<SmallTiles<T>>(like, p);
    middle < large ? launch_product<MiddleTiles<T>>(like, p) : launch_product<LargeTiles<T>>(like, p);
  }
}
}  // namespace fox
