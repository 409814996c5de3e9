// The encoder's pools and their gradients on the GPU: what a chain reads is on its way before the chain needs it.
#pragma once
#include "attention.h"
#include "launch.cuh"

namespace fox {
constexpr unsigned pool_threads = 128;

// A thread an element (b, h) of all steps.
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

template <class T> __global__ void __launch_bounds__(pool_threads) grad_e_kernel(AttentionGradE<T> of, int64_t count) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(pool_threads) + threadIdx.x, hidden = of.spans.size;
  if (i >= count) return;
  const int64_t first = of.spans.row(i) * of.steps, j = of.spans.begin(i);
  const T along = of.grad_context[i], q = of.q[j];
#pragma unroll 16
  for (int64_t row = first; row < first + of.steps; ++row)
    of.grad_e[row * hidden + j] = of.result(of.alpha[row], along, of.grad_score[row], q);
}

template <class T> bool staged(const Tensor& like, int64_t count, const AttentionPool<T>& of) {
  launch("pool_kernel", pool_kernel<T>, {blocks_of(count, pool_threads), pool_threads}, like, of, count);
  return true;
}
template <class T> bool staged(const Tensor& like, int64_t elements, const AttentionGradE<T>& of) {
  const int64_t count = elements / of.steps;
  launch("grad_e_kernel", grad_e_kernel<T>, {blocks_of(count, pool_threads), pool_threads}, like, of, count);
  return true;
}
}  // namespace fox
