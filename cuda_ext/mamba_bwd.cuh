// The Mamba-2 mixer backwards on the GPU: a block takes the window of one batch row. Along it some warps carry G by
// elements (n, p) for the sums over heads, others by columns (m, p) for the sums over n, each in registers, so that no
// thread waits for another; then come the sums over columns, then those over the window.
#pragma once
#include "mamba.cuh"
#include "mamba_bwd.h"

namespace fox {
constexpr unsigned back_threads = 512;

// A Window, and behind it: dy and step x [T, M P]; b, c [T, N] and r, a [T, M], rows of P in steps of `stride`;
// ddelta and log_terms [T, M].
struct BackWindow : Window {
  int state, block, stride;
  FOX_HD explicit BackWindow(const MambaSizes& s) : Window(s), state(s.state), block(s.block()), stride(head | 1) {}
  FOX_HD int dy() const { return end(); }
  FOX_HD int drive() const { return dy() + aligned<float>(steps * hidden); }
  FOX_HD int of_b() const { return drive() + aligned<float>(steps * hidden); }
  FOX_HD int of_c() const { return of_b() + steps * state * stride; }
  FOX_HD int of_r() const { return of_c() + steps * state * stride; }
  FOX_HD int of_a() const { return of_r() + steps * heads * stride; }
  FOX_HD int grad_delta() const { return of_a() + steps * heads * stride; }
  FOX_HD int log_terms() const { return grad_delta() + steps * heads; }
  FOX_HD int all() const { return log_terms() + steps * heads; }
  FOX_HD unsigned by_elements() const { return (block + 31) / 32 * 32; }
  FOX_HD unsigned by_columns() const { return (hidden + 31) / 32 * 32; }
};

// Elements `stride` apart of step t, or 0 before the window.
template <int Size> __device__ void read_state(float (&to)[Size], const float* from, int stride, bool within) {
#pragma unroll
  for (int i = 0; i < Size; ++i) to[i] = within ? from[i * stride] : 0.f;
}

template <int N, int M> struct BackRow {
  const MambaBuffers<float>& of;
  BackWindow w;
  float* shared;
  int64_t first;

  __device__ const float* state(int t) const { return of.state + (first + t) * (M * w.block); }

  // dy, dz and step x; dgated and y lie in the places of dy and step x.
  __device__ void gate() const {
    for (int i = threadIdx.x; i < w.steps * w.hidden; i += blockDim.x) {
      int t = i / w.hidden, j = i % w.hidden;
      float *dy = shared + w.dy() + i, *drive = shared + w.drive() + i;
      float z = shared[t * w.width + j], s = px::sigmoid(z), grad = *dy;
      of.grad_u[(first + t) * w.width + j] = mamba_grad_z(grad, *drive, z, s);
      *dy = mamba_grad_y(grad, z, s);
      *drive = shared[w.step() + t * M + j / w.head] * shared[t * w.width + w.hidden + j];
    }
  }

  // b and c of one element.
  __device__ void sum_heads(int e) const {
    if (e >= w.block) return;
    const int n = e / w.head, p = e % w.head;
    float carried[M] = {}, now[M], next[M], later[M];
    read_state(now, state(w.steps - 1) + e, w.block, true);
    read_state(next, state(w.steps - 2) + e, w.block, w.steps > 1);
#pragma unroll 3
    for (int t = w.steps - 1; t >= 0; --t) {
      read_state(later, state(t - 2) + e, w.block, t > 1);
      const float *dy = shared + w.dy() + t * w.hidden + p, *drive = shared + w.drive() + t * w.hidden + p;
      const float read = shared[t * w.width + w.c + n];
      float keep[M], b = 0.f, c = 0.f;
      read_quads(keep, shared + w.decay() + t * M);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        float grad = px::fma(read, dy[m * w.head], carried[m]);
        c = px::fma(now[m], dy[m * w.head], c);
        b = px::fma(grad, drive[m * w.head], b);
        carried[m] = keep[m] * grad;
        now[m] = next[m], next[m] = later[m];
      }
      shared[w.of_b() + (t * N + n) * w.stride + p] = b;
      shared[w.of_c() + (t * N + n) * w.stride + p] = c;
    }
  }

  // r, a and dx of one column.
  __device__ void sum_states(int column) const {
    if (column >= w.hidden) return;
    const int m = column / w.head, p = column % w.head, e = m * w.block + p;
    const float skip = of.d[m];
    float carried[N] = {}, before[N], next[N];
    read_state(before, state(w.steps - 2) + e, w.head, w.steps > 1);
#pragma unroll 2
    for (int t = w.steps - 1; t >= 0; --t) {
      read_state(next, state(t - 2) + e, w.head, t > 1);
      const float dy = shared[w.dy() + t * w.hidden + column], keep = shared[w.decay() + t * M + m];
      float write[N], read[N], r = 0.f, a = 0.f;
      read_quads(write, shared + t * w.width + w.b);
      read_quads(read, shared + t * w.width + w.c);
#pragma unroll
      for (int n = 0; n < N; ++n) {
        float grad = px::fma(read[n], dy, carried[n]);
        r = px::fma(grad, write[n], r);
        a = px::fma(grad, before[n], a);
        carried[n] = keep * grad;
        before[n] = next[n];
      }
      shared[w.of_r() + (t * M + m) * w.stride + p] = r;
      shared[w.of_a() + (t * M + m) * w.stride + p] = a;
      of.grad_u[(first + t) * w.width + w.hidden + column] = mamba_grad_x(shared[w.step() + t * M + m], r, skip, dy);
    }
  }

  // dd of each head.
  __device__ void skips(int lane) const {
    for (int m = lane; m < M; m += 32)
      of.grad_d[blockIdx.x * M + m] = MambaParameters<float, 1>{of}.skip(
          shared + w.hidden + m * w.head, w.width, shared + w.dy() + m * w.head, w.hidden);
  }

  // dB and dC of one step and n.
  __device__ void join(int i) const {
    float b, c, *to = of.grad_u + (first + i / N) * w.width + i % N;
    sum_rows_of<1>(shared + w.of_b() + i * w.stride, w.head, &b);
    sum_rows_of<1>(shared + w.of_c() + i * w.stride, w.head, &c);
    to[w.b] = px::one_nan(b);
    to[w.c] = px::one_nan(c);
  }

  // ddelta and log_terms of one step and head.
  __device__ void step(int i) const {
    const int t = i / M, m = i % M;
    const float* from = shared + t * w.width;
    float da, along;
    sum_rows_of<1>(shared + w.of_a() + i * w.stride, w.head, &da);
    dot_rows_of<1>(shared + w.of_r() + i * w.stride, from + w.hidden + m * w.head, 0, w.head, &along);
    float s = mamba_grad_rate(da, shared[w.decay() + i], of.a_log[m]);
    float grad = mamba_grad_delta(along, s, from[w.delta + m] + of.dt_bias[m]);
    shared[w.log_terms() + i] = s * shared[w.step() + i];
    shared[w.grad_delta() + i] = grad;
    of.grad_u[(first + t) * w.width + w.delta + m] = grad;
  }

  // d dt_bias and d a_log of each head.
  __device__ void sums() const {
    MambaParameters<float, 1> along{of};
    const int m = threadIdx.x % 32;
    if (m >= M) return;
    if (threadIdx.x / 32 == 0) of.grad_dt_bias[blockIdx.x * M + m] = along.bias(shared + w.grad_delta() + m, M);
    if (threadIdx.x / 32 == 1) of.grad_a_log[blockIdx.x * M + m] = along.rate(shared + w.log_terms() + m, M);
  }
};

template <int N, int M> __global__ void __launch_bounds__(back_threads) mamba_bwd_kernel(MambaBuffers<float> of) {
  const BackWindow w(of.sizes);
  const int64_t first = blockIdx.x * static_cast<int64_t>(w.steps);
  const BackRow<N, M> row{of, w, shared_memory<float>(), first};
  fetch(row.shared + w.dy(), of.grad_gated + first * w.hidden, w.steps * w.hidden);
  fetch(row.shared + w.drive(), of.y + first * w.hidden, w.steps * w.hidden);
  w.take(row.shared, of.u, of.dt_bias, of.a_log, first);
  __syncthreads();
  row.gate();
  __syncthreads();
  const unsigned columns = w.by_elements(), lanes = columns + w.by_columns();
  if (threadIdx.x < columns) row.sum_heads(threadIdx.x);
  else if (threadIdx.x < lanes) row.sum_states(threadIdx.x - columns);
  else row.skips(threadIdx.x - lanes);
  __syncthreads();
  for (int i = threadIdx.x; i < w.steps * (N + M); i += blockDim.x)
    i < w.steps * N ? row.join(i) : row.step(i - w.steps * N);
  __syncthreads();
  row.sums();
}

inline bool staged(const Tensor& like, const MambaBuffers<float>& of) {
  const MambaSizes& s = of.sizes;
  const bool large = s.state == 16 && s.heads == 8;
  if (!fits_window(s) || (!large && (s.state != 4 || s.heads != 4))) return false;
  const BackWindow w(s);
  const unsigned threads = w.by_elements() + w.by_columns() + 32;
  const size_t bytes = w.all() * sizeof(float);
  const auto kernel = large ? mamba_bwd_kernel<16, 8> : mamba_bwd_kernel<4, 4>;
  if (threads > back_threads || !reserve(like, reinterpret_cast<const void*>(kernel), bytes)) return false;
  if (s.batch == 0) return true;
  launch("mamba_bwd_kernel", kernel, {blocks_of(s.batch, 1), threads, bytes}, like, of);
  return true;
}
}  // namespace fox
