// Sums over rows on the GPU, a thread a column of a chunk: short chunks read ahead in registers, long ones by a whole
// block into shared memory.
#pragma once
#include "launch.cuh"
#include "linalg.h"
#include "staging.cuh"

namespace fox {
constexpr int short_chunk = 64, ahead = 16, sum_columns = 32;
constexpr unsigned short_threads = 128, long_threads = 256;

template <class T> __global__ void __launch_bounds__(short_threads) sum_short_kernel(SumRows<T, 1> of) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(short_threads) + threadIdx.x;
  const int64_t chunk = i / of.columns, begin = chunk * of.chunk_rows;
  if (begin >= of.rows) return;
  const int64_t size = begin + of.chunk_rows < of.rows ? of.chunk_rows : of.rows - begin;
  const T* from = of.a + begin * of.columns + i % of.columns;
  T total = T(0), next[ahead];
  for (int64_t r = 0; r < size; r += ahead) {
#pragma unroll
    for (int k = 0; k < ahead; ++k)
      if (r + k < size) next[k] = from[(r + k) * of.columns];
#pragma unroll
    for (int k = 0; k < ahead; ++k)
      if (r + k < size) total = total + next[k];
  }
  of.out[i] = total;
}

template <class T> __global__ void __launch_bounds__(long_threads) sum_long_kernel(SumRows<T, 1> of) {
  constexpr int deep = 256 / sizeof(T), slots = 4, beside = long_threads / sum_columns;
  __shared__ T tiles[slots][deep * sum_columns];
  const int lane = threadIdx.x % sum_columns, row = threadIdx.x / sum_columns;
  const int64_t chunk = blockIdx.y, begin = chunk * of.chunk_rows;
  const int64_t column = blockIdx.x * static_cast<int64_t>(sum_columns) + lane;
  const int64_t size = begin + of.chunk_rows < of.rows ? of.chunk_rows : of.rows - begin;
  const T* from = of.a + begin * of.columns + column;
  auto request = [&](int64_t r, int slot) {
#pragma unroll
    for (int k = 0; k < deep; k += beside)
      if (column < of.columns && r + k + row < size)
        __pipeline_memcpy_async(&tiles[slot][k * sum_columns + threadIdx.x], from + (r + k + row) * of.columns, sizeof(T));
    __pipeline_commit();
  };
  for (int slot = 0; slot < slots - 1; ++slot) request(slot * deep, slot);
  T total = T(0);
  int slot = 0;
  for (int64_t r = 0; r < size; r += deep) {
    __pipeline_wait_prior(slots - 2);
    __syncthreads();
    request(r + (slots - 1) * deep, (slot + slots - 1) % slots);
    const int left = size - r < deep ? static_cast<int>(size - r) : deep;
    if (row == 0 && left == deep) {
#pragma unroll  // so that all are read ahead of their additions
      for (int k = 0; k < deep; ++k) total = total + tiles[slot][k * sum_columns + lane];
    } else if (row == 0) {
      for (int k = 0; k < left; ++k) total = total + tiles[slot][k * sum_columns + lane];
    }
    slot = (slot + 1) % slots;
  }
  if (row == 0 && column < of.columns) of.out[chunk * of.columns + column] = total;
}

// A block a span, a thread a column.
static __global__ void __launch_bounds__(TotalSpan::columns) total_kernel(const __grid_constant__ TotalSpan of) {
  const RowsOfPart& part = of.all[range_of(of.all, of.count, blockIdx.x)];
  const int64_t column = (blockIdx.x - part.first) * TotalSpan::columns + threadIdx.x;
  if (column >= part.columns) return;
  const float* from = part.from + column;
  float total = 0.f;
#pragma unroll 16
  for (int64_t r = 0; r < part.rows; ++r) total = total + from[r * part.columns];
  part.to[column] = px::one_nan(total);
}

inline bool staged(const Tensor& like, int64_t spans, const TotalSpan& of) {
  if (spans) launch("total_kernel", total_kernel, {blocks_of(spans, 1), TotalSpan::columns}, like, of);
  return true;
}

template <class T> bool staged(const Tensor& like, int64_t, const SumRows<T, 1>& of) {
  int64_t chunks = (of.rows + of.chunk_rows - 1) / of.chunk_rows;
  if (of.rows <= short_chunk || of.chunk_rows <= short_chunk) {
    launch("sum_short_kernel", sum_short_kernel<T>, {blocks_of(chunks * of.columns, short_threads), short_threads}, like,
           of);
    return true;
  }
  if (chunks > 65535) return false;
  dim3 grid(blocks_of(of.columns, sum_columns), static_cast<unsigned>(chunks));
  launch("sum_long_kernel", sum_long_kernel<T>, {grid, long_threads}, like, of);
  return true;
}
}  // namespace fox
