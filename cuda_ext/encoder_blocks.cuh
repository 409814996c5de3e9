// The encoder's pools on the GPU: what a chain reads is on its way before the chain needs it.
#pragma once
#include "attention.h"
#include "launch.cuh"

namespace fox {
constexpr unsigned pool_threads = 128;

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

template <class T> bool staged(const Tensor& like, int64_t count, const AttentionPool<T>& of) {
  launch("pool_kernel", pool_kernel<T>, {blocks_of(count, pool_threads), pool_threads}, like, of, count);
  return true;
}
}  // namespace fox
