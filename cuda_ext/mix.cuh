// IQN's mix on the GPU: a warp a row (b, i), neighbouring threads on neighbouring elements.
#pragma once
#include "iqn.h"
#include "launch.cuh"

namespace fox {
constexpr unsigned mix_threads = 256, mix_rows = mix_threads / 32;

template <class T> __device__ void mix_element(const MixForward<T>& of, int64_t e, T state) {
  of.result[e] = of.of(of.pre[e], state);
}
template <class T> __device__ void mix_element(const MixBackward<T>& of, int64_t e, T state) {
  of.grad_pre[e] = of.of(of.pre[e], state, of.grad_out[e]);
}

template <class Mix> __global__ void __launch_bounds__(mix_threads) mix_kernel(Mix of, int64_t rows) {
  const int64_t row = blockIdx.x * static_cast<int64_t>(mix_rows) + threadIdx.x / 32;
  if (row >= rows) return;
  const auto* state = of.h + quotient(row, of.quantiles) * of.hidden;
#pragma unroll 4
  for (int64_t j = threadIdx.x % 32; j < of.hidden; j += 32) mix_element(of, row * of.hidden + j, state[j]);
}

template <class T> bool staged(const Tensor& like, int64_t rows, const MixForward<T>& of) {
  launch("mix_kernel", mix_kernel<MixForward<T>>, {blocks_of(rows, mix_rows), mix_threads}, like, of, rows);
  return true;
}
template <class T> bool staged(const Tensor& like, int64_t rows, const MixBackward<T>& of) {
  launch("mix_kernel", mix_kernel<MixBackward<T>>, {blocks_of(rows, mix_rows), mix_threads}, like, of, rows);
  return true;
}
}  // namespace fox
