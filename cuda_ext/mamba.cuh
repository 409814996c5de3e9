// The Mamba-2 mixer on the GPU: a block walks the window of one batch row, a thread a column (m, p) with its states in
// registers; no thread waits for another along the window.
#pragma once
#include "launch.cuh"
#include "mamba.h"
#include "staging.cuh"

namespace fox {
// MambaSizes by 32 bits, and where a window's inputs lie in shared memory: u; step; decay.
struct Window {
  int steps, heads, head, hidden, b, c, delta, width, every;
  FOX_HD explicit Window(const MambaSizes& s)
      : steps(s.steps), heads(s.heads), head(s.head), hidden(s.hidden()), b(s.b()), c(s.c()), delta(s.delta()),
        width(s.width()), every(s.every) {}
  FOX_HD int step() const { return aligned<float>(steps * width); }
  FOX_HD int decay() const { return step() + aligned<float>(steps * heads); }
  FOX_HD int end() const { return decay() + aligned<float>(steps * heads); }

  // Fills `shared` from row `first` of u on, with all threads of the block.
  __device__ void take(float* shared, const float* u, const float* dt_bias, const float* a_log, int64_t first) const {
    fetch(shared, u + first * width, steps * width);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    for (int i = threadIdx.x; i < steps * heads; i += blockDim.x) {
      int m = i % heads;
      float seconds = mamba_step(shared[i / heads * width + delta + m], dt_bias[m]);
      shared[step() + i] = seconds;
      shared[decay() + i] = mamba_decay(seconds, a_log[m]);
    }
  }
};

// Whether vectors of four reach B and C, and a block of threads all columns.
inline bool fits_window(const MambaSizes& s) {
  return s.b() % 4 == 0 && s.width() % 4 == 0 && s.hidden() <= 512 && s.steps * s.width() <= most_shared_bytes;
}

// Size elements from 16 bytes on.
template <int Size> __device__ void read_quads(float (&to)[Size], const float* from) {
#pragma unroll
  for (int n = 0; n < Size; n += 4) {
    float4 quad = *reinterpret_cast<const float4*>(from + n);
    to[n] = quad.x, to[n + 1] = quad.y, to[n + 2] = quad.z, to[n + 3] = quad.w;
  }
}

template <int N> __global__ void __launch_bounds__(512) mamba_kernel(MambaForward<float> of) {
  const Window w(of.sizes);
  const int64_t first = blockIdx.x * static_cast<int64_t>(w.steps);
  float* shared = shared_memory<float>();
  w.take(shared, of.u, of.dt_bias, of.a_log, first);
  __syncthreads();
  const int column = threadIdx.x, m = column / w.head;
  if (column >= w.hidden) return;
  const float skip = of.d[m];
  float state[N] = {};
  for (int t = 0; t < w.steps; ++t) {
    const float *row = shared + t * w.width, x = row[w.hidden + column];
    const float seconds = shared[w.step() + t * w.heads + m], keep = shared[w.decay() + t * w.heads + m];
    float write[N], read[N], sum = 0.f;
    read_quads(write, row + w.b);
    read_quads(read, row + w.c);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      state[n] = mamba_next(keep, state[n], seconds * write[n], x);
      sum = px::fma(read[n], state[n], sum);
    }
    const int64_t at = (first + t) * w.hidden + column;
    const float y = mamba_y(skip, x, sum);
    of.y[at] = y;
    of.gated[at] = mamba_gated(y, row[column]);
    if ((t + 1) % w.every) continue;
    float* to = of.state + (quotient(first + t, w.every) * w.heads + m) * (N * w.head) + column % w.head;
#pragma unroll
    for (int n = 0; n < N; ++n) to[n * w.head] = state[n];
  }
}

inline bool staged(const Tensor& like, const MambaForward<float>& of) {
  const MambaSizes& s = of.sizes;
  if (!fits_window(s) || (s.state != 16 && s.state != 4)) return false;
  size_t bytes = Window(s).end() * sizeof(float);
  if (bytes > most_shared_bytes) return false;
  if (s.batch == 0) return true;
  unsigned threads = (s.hidden() + 31) / 32 * 32;
  launch("mamba_kernel", s.state == 16 ? mamba_kernel<16> : mamba_kernel<4>, {blocks_of(s.batch, 1), threads, bytes},
         like, of);
  return true;
}
}  // namespace fox
