// The Mamba-2 mixer backwards on the GPU: a block takes the window of one batch row. Along it some warps carry G by
// elements (n, p) for the sums over heads, others by columns (m, p) for the sums over n, each in registers, so that no
// thread waits for another; then come the sums over columns, then those over the window.
#pragma once
#include "mamba.cuh"
#include "mamba_bwd.h"

namespace fox {
constexpr unsigned back_threads = 512;

// A Window, and behind it: dy and y [T, M P]; b, c [T, N] and r, a [T, M], rows of P in steps of `stride`;
// ddelta and log_terms [T, M].
struct BackWindow : Window {
  int state, block, stride;
  FOX_HD explicit BackWindow(const MambaSizes& s) : Window(s), state(s.state), block(s.block()), stride(head | 1) {}
  FOX_HD int dy() const { return end(); }
  FOX_HD int y() const { return dy() + aligned<float>(steps * hidden); }
  FOX_HD int of_b() const { return y() + aligned<float>(steps * hidden); }
  FOX_HD int of_c() const { return of_b() + steps * state * stride; }
  FOX_HD int of_r() const { return of_c() + steps * state * stride; }
  FOX_HD int of_a() const { return of_r() + steps * heads * stride; }
  FOX_HD int grad_delta() const { return of_a() + steps * heads * stride; }
  FOX_HD int log_terms() const { return grad_delta() + steps * heads; }
  FOX_HD int all() const { return log_terms() + steps * heads; }
  FOX_HD unsigned by_elements() const { return (block + 31) / 32 * 32; }
  FOX_HD unsigned by_columns() const { return (hidden + 31) / 32 * 32; }
};

// Elements `stride` apart of a state, or 0 before the window.
template <int Size> __device__ void read_state(float (&to)[Size], const float* from, int stride, bool within) {
#pragma unroll
  for (int i = 0; i < Size; ++i) to[i] = within ? from[i * stride] : 0.f;
}

// Four neighbours of each of some steps.
template <int Steps> __device__ void read_steps(float (&to)[Steps][4], const float* from, int stride) {
#pragma unroll
  for (int i = 0; i < Steps; ++i) {
    float4 quad = *reinterpret_cast<const float4*>(from + i * stride);
    to[i][0] = quad.x, to[i][1] = quad.y, to[i][2] = quad.z, to[i][3] = quad.w;
  }
}

// The states of N by M are kept after every Every steps; those of the steps of such a part are made anew in registers.
template <int N, int M, int Every> struct BackRow {
  const MambaBuffers<float>& of;
  BackWindow w;
  float* shared;
  int64_t first;

  __device__ int parts() const { return w.steps / Every; }
  __device__ const float* kept(int part) const { return of.kept + (first / Every + part) * (M * w.block); }

  // dy and dz; dgated and y lie in the places of dy and y.
  __device__ void gate() const {
    for (int i = threadIdx.x; i < w.steps * w.hidden; i += blockDim.x) {
      int t = i / w.hidden, j = i % w.hidden;
      float *dy = shared + w.dy() + i, z = shared[t * w.width + j], s = px::sigmoid(z), grad = *dy;
      of.grad_u[(first + t) * w.width + j] = mamba_grad_z(grad, shared[w.y() + i], z, s);
      *dy = mamba_grad_y(grad, z, s);
    }
  }

  // b and c of one element: head by head, each along the steps of a part.
  __device__ void sum_heads(int e) const {
    if (e >= w.block) return;
    const int n = e / w.head, p = e % w.head;
    float carried[M] = {}, before[M];
    read_state(before, kept(parts() - 2) + e, w.block, parts() > 1);
    for (int part = parts() - 1; part >= 0; --part) {
      const int begin = part * Every;
      float later[M], last[M], b[Every] = {}, c[Every] = {}, write[Every], read[Every];
      read_state(later, kept(part - 2) + e, w.block, part > 1);
      if (Every == 1) read_state(last, kept(part) + e, w.block, true);
#pragma unroll
      for (int i = 0; i < Every; ++i) {
        write[i] = shared[(begin + i) * w.width + w.b + n];
        read[i] = shared[(begin + i) * w.width + w.c + n];
      }
#pragma unroll
      for (int quad = 0; quad < M; quad += 4) {
        float keep[Every][4], seconds[Every][4];
        read_steps(keep, shared + w.decay() + begin * M + quad, M);
        read_steps(seconds, shared + w.step() + begin * M + quad, M);
#pragma unroll
        for (int h = 0; h < 4; ++h) {
          const int m = quad + h;
          float now[Every], drive[Every], dy[Every], past = before[m];
#pragma unroll
          for (int i = 0; i < Every; ++i) {
            const float x = shared[(begin + i) * w.width + w.hidden + m * w.head + p];
            dy[i] = shared[w.dy() + (begin + i) * w.hidden + m * w.head + p];
            drive[i] = seconds[i][h] * x;
            now[i] = past = Every == 1 ? last[m] : mamba_next(keep[i][h], past, seconds[i][h] * write[i], x);
          }
#pragma unroll
          for (int i = Every - 1; i >= 0; --i) {
            float grad = px::fma(read[i], dy[i], carried[m]);
            c[i] = px::fma(now[i], dy[i], c[i]);
            b[i] = px::fma(grad, drive[i], b[i]);
            carried[m] = keep[i][h] * grad;
          }
        }
      }
#pragma unroll
      for (int i = 0; i < Every; ++i) {
        shared[w.of_b() + ((begin + i) * N + n) * w.stride + p] = b[i];
        shared[w.of_c() + ((begin + i) * N + n) * w.stride + p] = c[i];
      }
#pragma unroll
      for (int m = 0; m < M; ++m) before[m] = later[m];
    }
  }

  // r, a and dx of one column: n by n, each along the steps of a part.
  __device__ void sum_states(int column) const {
    if (column >= w.hidden) return;
    const int m = column / w.head, p = column % w.head, e = m * w.block + p;
    const float skip = of.d[m];
    float carried[N] = {}, before[N];
    read_state(before, kept(parts() - 2) + e, w.head, parts() > 1);
    for (int part = parts() - 1; part >= 0; --part) {
      const int begin = part * Every;
      float r[Every] = {}, a[Every] = {}, dy[Every], keep[Every], seconds[Every], x[Every];
#pragma unroll
      for (int i = 0; i < Every; ++i) {
        dy[i] = shared[w.dy() + (begin + i) * w.hidden + column];
        x[i] = shared[(begin + i) * w.width + w.hidden + column];
        keep[i] = shared[w.decay() + (begin + i) * M + m];
        seconds[i] = shared[w.step() + (begin + i) * M + m];
      }
#pragma unroll
      for (int quad = 0; quad < N; quad += 4) {
        float write[Every][4], read[Every][4];
        read_steps(write, shared + begin * w.width + w.b + quad, w.width);
        read_steps(read, shared + begin * w.width + w.c + quad, w.width);
#pragma unroll
        for (int h = 0; h < 4; ++h) {
          const int n = quad + h;
          float past[Every] = {before[n]};
#pragma unroll
          for (int i = 0; i + 1 < Every; ++i) past[i + 1] = mamba_next(keep[i], past[i], seconds[i] * write[i][h], x[i]);
          before[n] = part > 1 ? kept(part - 2)[e + n * w.head] : 0.f;
#pragma unroll
          for (int i = Every - 1; i >= 0; --i) {
            float grad = px::fma(read[i][h], dy[i], carried[n]);
            r[i] = px::fma(grad, write[i][h], r[i]);
            a[i] = px::fma(grad, past[i], a[i]);
            carried[n] = keep[i] * grad;
          }
        }
      }
#pragma unroll
      for (int i = 0; i < Every; ++i) {
        const int t = begin + i;
        shared[w.of_r() + (t * M + m) * w.stride + p] = r[i];
        shared[w.of_a() + (t * M + m) * w.stride + p] = a[i];
        of.grad_u[(first + t) * w.width + w.hidden + column] = mamba_grad_x(seconds[i], r[i], skip, dy[i]);
      }
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

template <int N, int M, int Every>
__global__ void __launch_bounds__(back_threads) mamba_bwd_kernel(MambaBuffers<float> of) {
  const BackWindow w(of.sizes);
  const int64_t first = blockIdx.x * static_cast<int64_t>(w.steps);
  const BackRow<N, M, Every> row{of, w, shared_memory<float>(), first};
  fetch(row.shared + w.dy(), of.grad_gated + first * w.hidden, w.steps * w.hidden);
  fetch(row.shared + w.y(), of.y + first * w.hidden, w.steps * w.hidden);
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
  const bool large = s.state == 16 && s.heads == 8, whole = s.every == 1;
  if (!fits_window(s) || (!large && (s.state != 4 || s.heads != 4)) || (!whole && s.every != 4)) return false;
  const BackWindow w(s);
  const unsigned threads = w.by_elements() + w.by_columns() + 32;
  const size_t bytes = w.all() * sizeof(float);
  const auto kernel = large ? (whole ? mamba_bwd_kernel<16, 8, 1> : mamba_bwd_kernel<16, 8, 4>)
                            : (whole ? mamba_bwd_kernel<4, 4, 1> : mamba_bwd_kernel<4, 4, 4>);
  if (threads > back_threads || !reserve(like, reinterpret_cast<const void*>(kernel), bytes)) return false;
  if (s.batch == 0) return true;
  launch("mamba_bwd_kernel", kernel, {blocks_of(s.batch, 1), threads, bytes}, like, of);
  return true;
}
}  // namespace fox
