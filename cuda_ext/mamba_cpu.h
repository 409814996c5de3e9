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
    T *now = of.state + row * of.sizes.kept() * all + m * of.sizes.block() + p, *before = now;
    advance<true, Heads>(first, m, p, now, now);
    for (int64_t t = 1; t < of.sizes.steps; ++t, before = now) {
      if (t % of.sizes.every == 0) now += all;
      advance<false, Heads>(first + t, m, p, before, now);
    }
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

// MambaScanBwd and MambaJoin where a head is one vector wide: the sums over heads of one step stay in the cache, as do
// the states between two that were kept, which are made anew.
template <class T, int Lanes> struct MambaHeadScanBwd {
  MambaBuffers<T> of;
  static constexpr int64_t most_state = 64, most_states = 1 << 14;
  static bool fits(const MambaSizes& sizes) {
    return sizes.head == Lanes && sizes.state % Lanes == 0 && sizes.state <= most_state && sizeof(T) == sizeof(float) &&
           sizes.every * sizes.heads * sizes.block() <= most_states;
  }

  FOX_HD void operator()(int64_t row) const {
    const MambaSizes& sizes = of.sizes;
    const int64_t all = sizes.heads * sizes.block();
    T* carried = of.grad_state + row * all;
    T states[most_states];
    for (int64_t e = 0; e < all; ++e) carried[e] = T(0);
    for (int64_t part = sizes.kept() - 1; part >= 0; --part) {
      const int64_t first = row * sizes.steps + part * sizes.every;
      const T *kept = of.kept + (row * sizes.kept() + part) * all, *before = part ? kept - all : nullptr;
      for (int64_t i = 0; i + 1 < sizes.every; ++i)
        part || i ? forward<false>(first + i, i ? states + (i - 1) * all : before, states + i * all)
                  : forward<true>(first, states, states);
      for (int64_t i = sizes.every - 1; i >= 0; --i) {
        const T* now = i + 1 == sizes.every ? kept : states + i * all;
        part || i ? step<false>(first + i, now, i ? states + (i - 1) * all : before, carried)
                  : step<true>(first, now, now, carried);
      }
    }
  }

  // All states of a step, as MambaScan makes them.
  template <bool First> FOX_HD void forward(int64_t t, const T* before, T* now) const {
    const MambaSizes& sizes = of.sizes;
    const T *from = of.u + t * sizes.width(), *x = from + sizes.hidden();
    for (int64_t m = 0; m < sizes.heads; ++m) {
      const T seconds = of.step[t * sizes.heads + m], keep = of.decay[t * sizes.heads + m];
      for (int64_t n = 0; n < sizes.state; ++n) {
        const T drive = seconds * from[sizes.b() + n];
        const int64_t e = m * sizes.block() + n * Lanes;
        FOX_LANES
        for (int j = 0; j < Lanes; ++j) now[e + j] = mamba_next(keep, First ? T(0) : before[e + j], drive, x[m * Lanes + j]);
      }
    }
  }

  // A step with the states after and before it.
  template <bool First> FOX_HD void step(int64_t t, const T* now, const T* before, T* carried) const {
    const MambaSizes& sizes = of.sizes;
    T b[most_state * Lanes], c[most_state * Lanes];
    for (int64_t e = 0; e < sizes.block(); ++e) b[e] = c[e] = T(0);
    int64_t m = 0;
    for (; m + 2 <= sizes.heads; m += 2) heads<First, 2>(t, m, now, before, carried, b, c);
    for (; m < sizes.heads; ++m) heads<First, 1>(t, m, now, before, carried, b, c);
    T* to = of.grad_u + t * sizes.width();
    for (int64_t n = 0; n < sizes.state; n += Lanes) {
      sum_square<Lanes>(b + n * Lanes, to + sizes.b() + n);
      sum_square<Lanes>(c + n * Lanes, to + sizes.c() + n);
    }
    for (int64_t n = sizes.b(); n < sizes.delta(); ++n) to[n] = px::one_nan(to[n]);
  }

  template <bool First, int Heads>
  FOX_HD void heads(int64_t t, int64_t m, const T* now, const T* before, T* carried, T* b, T* c) const {
    const MambaSizes& sizes = of.sizes;
    const int64_t block = sizes.block(), at = t * sizes.heads + m;
    const T *from = of.u + t * sizes.width(), *x = from + sizes.hidden() + m * Lanes;
    const T* dy = of.grad_y + t * sizes.hidden() + m * Lanes;
    T r[Heads][Lanes] = {}, a[Heads][Lanes] = {}, drive[Heads][Lanes];
    now += m * block, before += m * block, carried += m * block;
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
