// The Mamba-2 recurrence on the GPU: a block walks the window of one batch row. In turn t its threads take the elements
// (n, p) of step t and, of the step before, whose elements are all in shared memory by then, the sums over n.
#pragma once
#include "launch.cuh"
#include "mamba.h"
#include "staging.cuh"

namespace fox {
constexpr unsigned scan_threads = 256;

// MambaSizes of a shape that fits shared memory, and a step's row of inputs there: x, B, C; step; decay.
struct ScanSizes {
  int heads, state, head, block, hidden, entries, drives;
  FOX_HD explicit ScanSizes(const MambaSizes& s)
      : heads(s.heads), state(s.state), head(s.head), block(s.block()), hidden(s.hidden()), entries(s.heads * s.block()),
        drives(s.hidden() + 2 * s.state) {}
  template <class T> FOX_HD int step() const { return aligned<T>(drives); }
  template <class T> FOX_HD int decay() const { return step<T>() + aligned<T>(heads); }
  template <class T> FOX_HD int row() const { return decay<T>() + aligned<T>(heads); }
};

template <class T> __device__ void fetch_row(T* to, const T* drives, const T* step, const T* decay, ScanSizes s) {
  fetch(to, drives, s.drives);
  fetch(to + s.step<T>(), step, s.heads);
  fetch(to + s.decay<T>(), decay, s.heads);
}

constexpr int scan_slots = 6;

template <class T> __device__ void advance(T* __restrict__ now, const T* __restrict__ before, const T* __restrict__ row,
                                           T* __restrict__ kept, ScanSizes s) {
  for (int e = threadIdx.x; e < s.block; e += blockDim.x) {
    int n = e / s.head, p = e % s.head;
    T write = row[s.hidden + n];
#pragma unroll 8
    for (int m = 0; m < s.heads; ++m) {
      T last = before ? before[m * s.block + e] : T(0);
      T next = mamba_next(row[s.decay<T>() + m], last, row[s.step<T>() + m] * write, row[m * s.head + p]);
      now[m * s.block + e] = next;
      if (kept) kept[m * s.block + e] = next;
    }
  }
}

template <class T> __device__ void read_state(T* y, const T* now, const T* row, const T* skip, ScanSizes s) {
  for (int column = threadIdx.x; column < s.hidden; column += blockDim.x) {
    int m = column / s.head;
    const T *state = now + m * s.block + column % s.head, *read = row + s.hidden + s.state;
    T sum = T(0);
#pragma unroll 8
    for (int n = 0; n < s.state; ++n) sum = px::fma(read[n], state[n * s.head], sum);
    y[column] = mamba_y(skip[m], row[column], sum);
  }
}

template <class T> __global__ void __launch_bounds__(scan_threads) mamba_scan_kernel(MambaScan<T, 1> of) {
  const ScanSizes s(of.sizes);
  const int64_t steps = of.sizes.steps, first = blockIdx.x * steps, entries = aligned<T>(s.entries);
  T *states = shared_memory<T>(), *rows = states + 2 * entries;
  auto row = [&](int64_t t) { return rows + t % scan_slots * s.row<T>(); };
  auto request = [&](int64_t t) {
    int64_t at = first + t;
    if (t < steps)
      fetch_row(row(t), of.u + at * of.sizes.width() + s.hidden, of.step + at * s.heads, of.decay + at * s.heads, s);
    __pipeline_commit();
  };
  for (int64_t t = 0; t < scan_slots - 2; ++t) request(t);
  for (int64_t t = 0; t <= steps; ++t) {
    T *now = states + t % 2 * entries, *before = states + (t + 1) % 2 * entries;
    __pipeline_wait_prior(scan_slots - 3);
    __syncthreads();
    request(t + scan_slots - 2);
    int64_t place = of.kept == 1 ? blockIdx.x : first + t;
    T* kept = of.kept == 1 && t < steps - 1 ? nullptr : of.state + place * s.entries;
    if (t < steps) advance(now, t ? before : nullptr, row(t), kept, s);
    if (t) read_state(of.y + (first + t - 1) * s.hidden, before, row(t - 1), of.d, s);
  }
}

template <class T> bool staged(const Tensor& like, int64_t, const MambaScan<T, 1>& of) {
  if (of.sizes.heads * of.sizes.block() + of.sizes.hidden() > most_shared_bytes) return false;
  ScanSizes s(of.sizes);
  size_t bytes = (2 * aligned<T>(s.entries) + scan_slots * s.row<T>()) * sizeof(T);
  if (bytes > most_shared_bytes) return false;
  launch("mamba_scan_kernel", mamba_scan_kernel<T>, {blocks_of(of.sizes.batch, 1), scan_threads, bytes}, like, of);
  return true;
}
}  // namespace fox
