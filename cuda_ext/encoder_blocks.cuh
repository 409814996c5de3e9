// The encoder's pools and head gradients on the GPU: what a chain reads is on its way before the chain needs it.
#pragma once
#include "attention.h"
#include "launch.cuh"
#include "mamba_bwd.h"
#include "staging.cuh"

namespace fox {
constexpr unsigned pool_threads = 128, parameter_threads = 256;

// A thread an element (b, h).
template <class T> __global__ void __launch_bounds__(pool_threads) pool_kernel(AttentionPool<T> of, int64_t count) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(pool_threads) + threadIdx.x, hidden = of.spans.size;
  if (i >= count) return;
  const int64_t row = of.spans.row(i), j = of.spans.begin(i);
  const T *weight = of.weight + row * of.steps, *e = of.e + row * of.steps * hidden + j;
  T sum = T(0);
#pragma unroll 16
  for (int64_t t = 0; t < of.steps; ++t) sum = px::fma(weight[t], e[t * hidden], sum);
  of.out[i] = px::one_nan(sum);
}

// A block a batch row: x and dy in shared memory, a head's rows a bank apart; one warp a kind of sum, a thread a head.
template <class T> __global__ void __launch_bounds__(parameter_threads) parameters_kernel(MambaParameters<T, 1> of) {
  const MambaSizes& s = of.of.sizes;
  const int heads = s.heads, head = s.head, hidden = s.hidden(), count = s.steps * hidden, warp = threadIdx.x / 32;
  const int64_t row = blockIdx.x * s.steps;
  const int stride = heads * (head + 1);
  T *x = shared_memory<T>(), *dy = x + s.steps * stride;
  for (int i = threadIdx.x; i < count; i += parameter_threads) {
    int t = i / hidden, column = i % hidden, to = t * stride + column + column / head;
    __pipeline_memcpy_async(x + to, of.of.u + (row + t) * s.width() + hidden + column, sizeof(T));
    __pipeline_memcpy_async(dy + to, of.of.grad_y + (row + t) * hidden + column, sizeof(T));
  }
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  for (int m = threadIdx.x % 32; m < heads; m += 32) {
    const int64_t at = blockIdx.x * s.heads + m;
    const int offset = m * (head + 1);
    if (warp == 0) of.of.grad_d[at] = of.skip(x + offset, stride, dy + offset, stride);
    if (warp == 1) of.of.grad_dt_bias[at] = of.bias(row, m);
    if (warp == 2) of.of.grad_a_log[at] = of.rate(row, m);
  }
}

template <class T> bool staged(const Tensor& like, int64_t count, const AttentionPool<T>& of) {
  launch("pool_kernel", pool_kernel<T>, {blocks_of(count, pool_threads), pool_threads}, like, of, count);
  return true;
}
template <class T> bool staged(const Tensor& like, int64_t, const MambaParameters<T, 1>& of) {
  const MambaSizes& s = of.of.sizes;
  size_t bytes = 2 * s.steps * s.heads * (s.head + 1) * sizeof(T);
  if (bytes > most_shared_bytes) return false;
  launch("parameters_kernel", parameters_kernel<T>, {blocks_of(s.batch, 1), parameter_threads, bytes}, like, of);
  return true;
}
}  // namespace fox
