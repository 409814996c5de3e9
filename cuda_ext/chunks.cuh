// All rows in one number on the GPU: a thread a chunk of rows; then the first one joins the chunks.
#pragma once
#include "chunks.h"
#include "launch.cuh"

namespace fox {
constexpr unsigned chunk_threads = 256;

template <class Of> __global__ void __launch_bounds__(chunk_threads) chunks_kernel(Of of) {
  __shared__ typename Of::Part parts[chunk_threads];
  typename Of::Part total{};
  for (int64_t first = 0; first < of.rows; first += chunk_threads * row_chunk) {
    const int64_t begin = first + threadIdx.x * row_chunk;
    __syncthreads();
    if (begin < of.rows) parts[threadIdx.x] = chunk_of(of, begin);
    __syncthreads();
    if (threadIdx.x == 0)
      for (int i = 0; i < chunk_threads && first + i * row_chunk < of.rows; ++i) total = Of::add(total, parts[i]);
  }
  if (threadIdx.x == 0) of.finish(total);
}

template <class Of>
  requires requires { typename Of::Part; }
bool staged(const Tensor& like, int64_t, const Of& of) {
  launch("chunks_kernel", chunks_kernel<Of>, {1, chunk_threads}, like, of);
  return true;
}
}  // namespace fox
