// The Mamba-2 mixer's rows as a processor likes them: vectors over steps, two heads at a time, sums over columns turned.
#pragma once
#include "cpu.h"
#include "mamba_bwd.h"
#include "vector_cpu.h"

namespace fox {
// Heads are few: a vector takes those of several rows.
template <class T> struct MambaStepRows {
  MambaStep<T> of;
  int64_t rows;
  static constexpr int64_t block = 32;

  FOX_HD void operator()(int64_t i) const {
    const int64_t heads = of.sizes.heads, begin = i * block, end = begin + block < rows ? begin + block : rows;
    T *step = of.step + begin * heads, *decay = of.decay + begin * heads;
    for (int64_t m = 0; m < heads; ++m) decay[m] = px::exp(of.a_log[m]);
    for (int64_t row = begin; row < end; ++row) {
      const T* delta = of.u + row * of.sizes.width() + of.sizes.delta();
      for (int64_t m = 0; m < heads; ++m) {
        step[(row - begin) * heads + m] = delta[m] + of.dt_bias[m];
        decay[(row - begin) * heads + m] = decay[m];
      }
    }
    FOX_LANES
    for (int64_t e = 0; e < (end - begin) * heads; ++e) {
      T seconds = px::softplus(step[e]);
      step[e] = seconds;
      decay[e] = px::exp(-(seconds * decay[e]));
    }
  }
};

// MambaScan, a row being one vector of columns of all heads, four at a time: the sums over n wait less for each other.
template <class T, int Lanes> struct MambaHeadsScan {
  MambaScan<T, Lanes> of;

  FOX_HD void operator()(int64_t i) const {
    const int64_t p = of.spans.begin(i), row = of.spans.row(i), heads = of.sizes.heads;
    int64_t m = 0;
    for (; m + 4 <= heads; m += 4) scan<4>(row, m, p);
    for (; m < heads; ++m) scan<1>(row, m, p);
  }

  template <int Heads> FOX_HD void scan(int64_t row, int64_t m, int64_t p) const {
    const int64_t first = row * of.sizes.steps, all = of.sizes.heads * of.sizes.block();
    const int64_t stride = of.kept == 1 ? 0 : all;
    T* now = of.state + (of.kept == 1 ? row : first) * all + m * of.sizes.block() + p;
    advance<true, Heads>(first, m, p, now, now);
    for (int64_t t = first + 1; t < first + of.sizes.steps; ++t, now += stride)
      advance<false, Heads>(t, m, p, now, now + stride);
  }

  template <bool First, int Heads>
  FOX_HD void advance(int64_t t, int64_t m, int64_t p, const T* before, T* now) const {
    const MambaSizes& sizes = of.sizes;
    const int64_t block = sizes.block(), at = t * sizes.heads + m;
    const T *from = of.u + t * sizes.width(), *x = from + sizes.hidden() + m * sizes.head + p;
    T sum[Heads][Lanes] = {};
    for (int64_t n = 0; n < sizes.state; ++n) {
      const T write = from[sizes.b() + n], read = from[sizes.c() + n];
      FOX_UNROLL
      for (int h = 0; h < Heads; ++h) {
        const T drive = of.step[at + h] * write, keep = of.decay[at + h];
        FOX_LANES
        for (int j = 0; j < Lanes; ++j) {
          const int64_t e = h * block + n * sizes.head + j;
          T next = px::one_nan(px::fma(keep, First ? T(0) : before[e], drive * x[h * sizes.head + j]));
          now[e] = next;
          sum[h][j] = px::fma(read, next, sum[h][j]);
        }
      }
    }
    T* to = of.y + t * sizes.hidden() + m * sizes.head + p;
    for (int h = 0; h < Heads; ++h)
      for (int j = 0; j < Lanes; ++j)
        to[h * sizes.head + j] = px::one_nan(px::fma(of.d[m + h], x[h * sizes.head + j], sum[h][j]));
  }
};

// to[r] = sum over j ascending of x[r, j], for Lanes rows of Lanes elements.
template <int Lanes> FOX_HD void sum_square(const float* x, float* to) {
  using Vec = typename Vector<float, Lanes>::type;
  Vec rows[Lanes], sum{};
#pragma GCC unroll 16
  for (int r = 0; r < Lanes; ++r) rows[r] = *reinterpret_cast<const Vec*>(x + r * Lanes);
  transpose<Lanes>(rows);
#pragma GCC unroll 16
  for (int j = 0; j < Lanes; ++j) sum = sum + rows[j];
  *reinterpret_cast<Vec*>(to) = sum;
}

// MambaScanBwd and MambaJoin where a head is one vector wide: the sums over heads of one step stay in the cache.
template <class T, int Lanes> struct MambaHeadScanBwd {
  MambaBuffers<T> of;
  static constexpr int64_t most_state = 64;
  static bool fits(const MambaSizes& sizes) {
    return sizes.head == Lanes && sizes.state % Lanes == 0 && sizes.state <= most_state && sizeof(T) == sizeof(float);
  }

  FOX_HD void operator()(int64_t row) const {
    const MambaSizes& sizes = of.sizes;
    const int64_t block = sizes.block(), first = row * sizes.steps;
    T* carried = of.grad_state + row * sizes.heads * block;
    T b[most_state * Lanes], c[most_state * Lanes];
    for (int64_t e = 0; e < sizes.heads * block; ++e) carried[e] = T(0);
    for (int64_t t = first + sizes.steps - 1; t >= first; --t) {
      for (int64_t e = 0; e < block; ++e) b[e] = c[e] = T(0);
      int64_t m = 0;
      for (; m + 2 <= sizes.heads; m += 2)
        t == first ? heads<true, 2>(t, m, carried, b, c) : heads<false, 2>(t, m, carried, b, c);
      for (; m < sizes.heads; ++m)
        t == first ? heads<true, 1>(t, m, carried, b, c) : heads<false, 1>(t, m, carried, b, c);
      T* to = of.grad_u + t * sizes.width();
      for (int64_t n = 0; n < sizes.state; n += Lanes) {
        sum_square<Lanes>(b + n * Lanes, to + sizes.b() + n);
        sum_square<Lanes>(c + n * Lanes, to + sizes.c() + n);
      }
      for (int64_t n = sizes.b(); n < sizes.delta(); ++n) to[n] = px::one_nan(to[n]);
    }
  }

  template <bool First, int Heads>
  FOX_HD void heads(int64_t t, int64_t m, T* carried, T* b, T* c) const {
    const MambaSizes& sizes = of.sizes;
    const int64_t block = sizes.block(), at = t * sizes.heads + m;
    const T *from = of.u + t * sizes.width(), *x = from + sizes.hidden() + m * Lanes;
    const T *dy = of.grad_y + t * sizes.hidden() + m * Lanes, *now = of.state + at * block;
    const T* before = now - (First ? 0 : sizes.heads * block);
    T r[Heads][Lanes] = {}, a[Heads][Lanes] = {}, drive[Heads][Lanes];
    carried += m * block;
    for (int h = 0; h < Heads; ++h)
      for (int j = 0; j < Lanes; ++j) drive[h][j] = of.step[at + h] * x[h * Lanes + j];
    for (int64_t n = 0; n < sizes.state; ++n) {
      const T write = from[sizes.b() + n], read = from[sizes.c() + n];
      FOX_LANES
      for (int j = 0; j < Lanes; ++j) {
        T b_sum = b[n * Lanes + j], c_sum = c[n * Lanes + j];
        FOX_UNROLL
        for (int h = 0; h < Heads; ++h) {
          const int64_t e = h * block + n * Lanes + j;
          T grad = px::fma(read, dy[h * Lanes + j], carried[e]);
          c_sum = px::fma(now[e], dy[h * Lanes + j], c_sum);
          b_sum = px::fma(grad, drive[h][j], b_sum);
          r[h][j] = px::fma(grad, write, r[h][j]);
          a[h][j] = px::fma(grad, First ? T(0) : before[e], a[h][j]);
          carried[e] = of.decay[at + h] * grad;
        }
        b[n * Lanes + j] = b_sum;
        c[n * Lanes + j] = c_sum;
      }
      if (!First)
        for (int h = 0; h < Heads; ++h)
          __builtin_prefetch(before + h * block + n * Lanes - (t > 1 ? sizes.heads * block : 0));
    }
    T* grad_x = of.grad_u + t * sizes.width() + sizes.hidden() + m * Lanes;
    for (int h = 0; h < Heads; ++h)
      for (int j = 0; j < Lanes; ++j) {
        of.r[(at + h) * Lanes + j] = r[h][j];
        of.a[(at + h) * Lanes + j] = a[h][j];
        grad_x[h * Lanes + j] = px::one_nan(of.step[at + h] * r[h][j] + of.d[m + h] * dy[h * Lanes + j]);
      }
  }
};
}  // namespace fox
