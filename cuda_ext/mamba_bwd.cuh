// The Mamba-2 recurrence backwards on the GPU, a block a batch row. In turn i its threads take the elements (n, p) of
// step t = T-1-i and, of step t+1, whose elements of G are all in shared memory by then, the sums over n.
#pragma once
#include "mamba.cuh"
#include "mamba_bwd.h"

namespace fox {
constexpr int back_slots = 4, state_slots = 3;

// A step's inputs in shared memory: ScanSizes' row, then dy.
template <class T> FOX_HD int back_row(ScanSizes s) { return s.row<T>() + aligned<T>(s.hidden); }

// G of step t, from `old` of step t+1 (none where t is the last) and its row of inputs; and the sums over heads.
template <class T> struct BackElements {
  const T *now, *row, *old, *old_row;
  T *b, *c;
  ScanSizes s;

  __device__ void operator()(T* __restrict__ fresh) const { old ? take<false>(fresh, old) : take<true>(fresh, row); }

  template <bool Last> __device__ void take(T* __restrict__ fresh, const T* __restrict__ carry) const {
    const T *seconds = row + s.step<T>(), *keep = old_row + s.decay<T>(), *dys = row + s.row<T>();
    for (int e = threadIdx.x; e < s.block; e += blockDim.x) {
      int n = e / s.head, p = e % s.head;
      T read = row[s.hidden + s.state + n], b_sum = T(0), c_sum = T(0);
#pragma unroll 8
      for (int m = 0; m < s.heads; ++m) {
        T dy = dys[m * s.head + p];
        T grad = px::fma(read, dy, Last ? T(0) : keep[m] * carry[m * s.block + e]);
        c_sum = px::fma(now[m * s.block + e], dy, c_sum);
        b_sum = px::fma(grad, seconds[m] * row[m * s.head + p], b_sum);
        fresh[m * s.block + e] = grad;
      }
      b[e] = b_sum;
      c[e] = c_sum;
    }
  }
};

// The sums over n of G B, which give dx, and of G S_{t-1}, the two of one column p in neighbouring halves of threads.
template <class T> struct BackSums {
  const T *grads, *before, *row, *d;
  T *r, *a, *grad_x;
  ScanSizes s;

  __device__ void operator()() const {
    for (int i = threadIdx.x; i < 2 * s.hidden; i += blockDim.x) {
      int m = i / (2 * s.head), p = i % s.head, column = m * s.head + p;
      bool of_state = i / s.head % 2;
      const T* grad = grads + m * s.block + p;
      const T* with = of_state ? before + m * s.block + p : row + s.hidden;
      int stride = of_state ? s.head : 1;
      bool zero = of_state && !before;
      T sum = T(0);
#pragma unroll 8
      for (int n = 0; n < s.state; ++n) sum = px::fma(grad[n * s.head], zero ? T(0) : with[n * stride], sum);
      (of_state ? a : r)[column] = sum;
      if (!of_state) grad_x[column] = mamba_grad_x(row[s.step<T>() + m], sum, d[m], row[s.row<T>() + column]);
    }
  }
};

template <class T> __global__ void __launch_bounds__(scan_threads) mamba_scan_bwd_kernel(MambaBuffers<T> of) {
  const ScanSizes s(of.sizes);
  const int64_t steps = of.sizes.steps, last = (blockIdx.x + 1) * steps - 1, entries = aligned<T>(s.entries);
  T *grads = shared_memory<T>(), *states = grads + 2 * entries, *rows = states + state_slots * entries;
  auto row = [&](int64_t i) { return rows + i % back_slots * back_row<T>(s); };
  auto state = [&](int64_t i) { return states + i % state_slots * entries; };
  auto request = [&](int64_t i) {
    int64_t t = last - i;
    if (i < steps) {
      fetch(state(i), of.state + t * s.entries, s.entries);
      fetch_row(row(i), of.u + t * of.sizes.width() + s.hidden, of.step + t * s.heads, of.decay + t * s.heads, s);
      fetch(row(i) + s.row<T>(), of.grad_y + t * s.hidden, s.hidden);
    }
    __pipeline_commit();
  };
  for (int64_t i = 0; i < state_slots - 1; ++i) request(i);
  for (int64_t i = 0; i <= steps; ++i) {
    int64_t t = last - i;
    T *fresh = grads + i % 2 * entries, *old = grads + (i + 1) % 2 * entries;
    __pipeline_wait_prior(state_slots - 2);
    __syncthreads();
    request(i + state_slots - 1);
    if (i < steps)
      BackElements<T>{state(i), row(i),  i ? old : nullptr, i ? row(i - 1) : row(i), of.b + t * s.block,
                      of.c + t * s.block, s}(fresh);
    if (i)
      BackSums<T>{old, i < steps ? state(i) : nullptr, row(i - 1), of.d, of.r + (t + 1) * s.hidden,
                  of.a + (t + 1) * s.hidden, of.grad_u + (t + 1) * of.sizes.width() + s.hidden, s}();
  }
}

template <class T> bool staged(const Tensor& like, int64_t, const MambaScanBwd<T, 1>& scan) {
  const MambaBuffers<T>& of = scan.of;
  if (of.sizes.heads * of.sizes.block() + of.sizes.hidden() > most_shared_bytes) return false;
  ScanSizes s(of.sizes);
  size_t bytes = ((2 + state_slots) * aligned<T>(s.entries) + back_slots * back_row<T>(s)) * sizeof(T);
  if (bytes > most_shared_bytes) return false;
  launch("mamba_scan_bwd_kernel", mamba_scan_bwd_kernel<T>, {blocks_of(of.sizes.batch, 1), scan_threads, bytes}, like,
         of);
  return true;
}
}  // namespace fox
