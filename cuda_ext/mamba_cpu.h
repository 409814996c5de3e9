// The Mamba-2 mixer's rows as a processor likes them: vectors over steps, states in registers, sums over columns turned.
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

constexpr int widest = 16;  // floats of a vector, of all levels

// A scan in registers: some states n of one vector of columns of a head go through the window, and the sums over n go on
// from those of the states before. Unlike a state, a NaN that goes on needs no payload; what is written has one.
template <int Lanes> struct MambaWide {
  using Vec = typename Vector<float, Lanes>::type;
  static constexpr int depth = 4;
  static bool fits(const MambaSizes& sizes) { return sizes.head % widest == 0 && sizes.state % depth == 0; }

  static FOX_HD Vec& at(float* x) { return *reinterpret_cast<Vec*>(x); }
  static FOX_HD Vec at(const float* x) { return *reinterpret_cast<const Vec*>(x); }
  static FOX_HD Vec fma(float a, Vec b, Vec sum) { return fma_lanes<float, Lanes>(a, b, sum); }
  static FOX_HD Vec fma(Vec a, Vec b, Vec sum) { return fma_lanes<float, Lanes>(a, b, sum); }
  static FOX_HD Vec one_nan(Vec x) {
    Vec result;
    FOX_LANES
    for (int j = 0; j < Lanes; ++j) result[j] = px::one_nan(x[j]);
    return result;
  }
};

// MambaScan, a row being one head of one batch row.
struct MambaWideScan {
  MambaScan<float, widest> of;

  template <int Lanes> FOX_HD void wide(int64_t row) const {
    for (int64_t p = 0; p < of.sizes.head; p += widest)
      for (int64_t n = 0; n < of.sizes.state; n += MambaWide<Lanes>::depth)
        states<Lanes>(row / of.sizes.heads, row % of.sizes.heads, n, p);
  }

  template <int Lanes> FOX_HD void states(int64_t row, int64_t m, int64_t n, int64_t p) const {
    using W = MambaWide<Lanes>;
    using Vec = typename W::Vec;
    constexpr int vectors = widest / Lanes;
    const MambaSizes& sizes = of.sizes;
    const int64_t column = m * sizes.head + p;
    const float *from = of.u + row * sizes.steps * sizes.width(), *x = from + sizes.hidden() + column;
    const float *write = from + sizes.b() + n, *read = from + sizes.c() + n;
    float *y = of.y + row * sizes.steps * sizes.hidden() + column;
    float* kept = of.state + (row * sizes.kept() * sizes.heads + m) * sizes.block() + n * sizes.head + p;
    Vec state[W::depth][vectors] = {};
    const bool last = n + W::depth == sizes.state;
    for (int64_t t = 0, left = sizes.every; t < sizes.steps; ++t) {
      const float step = of.step[(row * sizes.steps + t) * sizes.heads + m];
      const float keep = of.decay[(row * sizes.steps + t) * sizes.heads + m];
      Vec sum[vectors];
      FOX_UNROLL
      for (int v = 0; v < vectors; ++v) sum[v] = n ? W::at(y + v * Lanes) : Vec{};
      FOX_UNROLL
      for (int k = 0; k < W::depth; ++k) {
        const float drive = step * write[k];
        FOX_UNROLL
        for (int v = 0; v < vectors; ++v) {
          state[k][v] = W::fma(keep, state[k][v], drive * W::at(x + v * Lanes));
          sum[v] = W::fma(read[k], state[k][v], sum[v]);
        }
      }
      FOX_UNROLL
      for (int v = 0; v < vectors; ++v)
        W::at(y + v * Lanes) = last ? W::one_nan(W::fma(of.d[m], W::at(x + v * Lanes), sum[v])) : sum[v];
      x += sizes.width(), y += sizes.hidden(), write += sizes.width(), read += sizes.width();
      if (--left) continue;
      FOX_UNROLL
      for (int k = 0; k < W::depth; ++k)
        FOX_UNROLL
        for (int v = 0; v < vectors; ++v) W::at(kept + k * sizes.head + v * Lanes) = W::one_nan(state[k][v]);
      kept += sizes.heads * sizes.block(), left = sizes.every;
    }
  }
};

// to[r] goes on by the sum over j ascending of x[r, j], for Lanes rows of Lanes elements.
template <int Lanes> FOX_HD void sum_square(const float* x, float* to) {
  using W = MambaWide<Lanes>;
  typename W::Vec rows[Lanes], sum = W::at(static_cast<const float*>(to));
#pragma GCC unroll 16
  for (int r = 0; r < Lanes; ++r) rows[r] = W::at(x + r * Lanes);
  transpose<Lanes>(rows);
#pragma GCC unroll 16
  for (int j = 0; j < Lanes; ++j) sum = sum + rows[j];
  W::at(to) = sum;
}

// MambaScanBwd and MambaJoin, a row being one batch row: for some n and p the states of a head are made anew from those
// that were kept, then G goes back through the window. What they add to stays in the cache.
struct MambaWideScanBwd {
  MambaBuffers<float> of;
  static constexpr int64_t most_steps = 32;
  template <class T> static bool fits(const MambaSizes& sizes) {
    return sizeof(T) == sizeof(float) && MambaWide<widest>::fits(sizes) && sizes.steps <= most_steps;
  }

  template <int Lanes> FOX_HD void wide(int64_t row) const {
    constexpr int64_t depth = MambaWide<Lanes>::depth, most = most_steps * depth;
    const MambaSizes& sizes = of.sizes;
    const int64_t rows = (sizes.steps * depth + Lanes - 1) / Lanes * Lanes;
    float states[(most + depth) * Lanes], sums[2 * most * Lanes];
    for (int64_t n = 0; n < sizes.state; n += depth) {
      float grad[2 * most];
      for (int64_t e = 0; e < 2 * rows; ++e) grad[e] = 0.f;
      for (int64_t p = 0; p < sizes.head; p += Lanes) {
        for (int64_t e = 0; e < 2 * rows * Lanes; ++e) sums[e] = 0.f;
        for (int64_t m = 0; m < sizes.heads; ++m) {
          forth<Lanes>(row, m, n, p, states);
          back<Lanes>(row, m, n, p, states, sums);
        }
        for (int64_t first = 0; first < 2 * rows; first += Lanes) sum_square<Lanes>(sums + first * Lanes, grad + first);
      }
      float* to = of.grad_u + row * sizes.steps * sizes.width() + n;
      for (int64_t t = 0; t < sizes.steps; ++t, to += sizes.width())
        for (int64_t k = 0; k < depth; ++k) {
          to[sizes.b() + k] = px::one_nan(grad[2 * t * depth + k]);
          to[sizes.c() + k] = px::one_nan(grad[(2 * t + 1) * depth + k]);
        }
    }
    for (int64_t at = row * sizes.steps * sizes.heads; at < (row + 1) * sizes.steps * sizes.heads; ++at) grad_x(at);
  }

  // The states before the window, which are 0, and after each step.
  template <int Lanes>
  FOX_HD void forth(int64_t row, int64_t m, int64_t n, int64_t p, float* states) const {
    using W = MambaWide<Lanes>;
    const MambaSizes& sizes = of.sizes;
    const float* kept = of.kept + (row * sizes.kept() * sizes.heads + m) * sizes.block() + n * sizes.head + p;
    const float *from = of.u + row * sizes.steps * sizes.width(), *x = from + sizes.hidden() + m * sizes.head + p;
    const float* write = from + sizes.b() + n;
    typename W::Vec state[W::depth] = {};
    FOX_UNROLL
    for (int k = 0; k < W::depth; ++k) W::at(states + k * Lanes) = state[k];
    for (int64_t t = 0, left = sizes.every; t < sizes.steps; ++t) {
      const int64_t at = (row * sizes.steps + t) * sizes.heads + m;
      states += W::depth * Lanes;
      if (--left) {
        FOX_UNROLL
        for (int k = 0; k < W::depth; ++k) state[k] = W::fma(of.decay[at], state[k], of.step[at] * write[k] * W::at(x));
      } else {
        FOX_UNROLL
        for (int k = 0; k < W::depth; ++k) {
          state[k] = W::at(kept + k * sizes.head);
          __builtin_prefetch(kept + (k + W::depth) * sizes.head);
        }
        kept += sizes.heads * sizes.block(), left = sizes.every;
      }
      FOX_UNROLL
      for (int k = 0; k < W::depth; ++k) W::at(states + k * Lanes) = state[k];
      x += sizes.width(), write += sizes.width();
    }
  }

  template <int Lanes>
  FOX_HD void back(int64_t row, int64_t m, int64_t n, int64_t p, const float* states, float* sums) const {
    using W = MambaWide<Lanes>;
    using Vec = typename W::Vec;
    const MambaSizes& sizes = of.sizes;
    constexpr int64_t step = W::depth * Lanes;
    Vec carried[W::depth] = {}, now[W::depth];
    FOX_UNROLL
    for (int k = 0; k < W::depth; ++k) now[k] = W::at(states + sizes.steps * step + k * Lanes);
    for (int64_t t = sizes.steps - 1; t >= 0; --t) {
      const int64_t at = (row * sizes.steps + t) * sizes.heads + m;
      const float *from = of.u + (row * sizes.steps + t) * sizes.width(), *before = states + t * step;
      const float *write = from + sizes.b() + n, *read = from + sizes.c() + n;
      const Vec dy = W::at(static_cast<const float*>(of.grad_y + at * sizes.head + p));
      const Vec drive = of.step[at] * W::at(from + sizes.hidden() + m * sizes.head + p);
      float *r_at = of.r + at * sizes.head + p, *a_at = of.a + at * sizes.head + p;
      Vec r = n ? W::at(r_at) : Vec{}, a = n ? W::at(a_at) : Vec{};
      FOX_UNROLL
      for (int k = 0; k < W::depth; ++k) {
        Vec &b_sum = W::at(sums + 2 * t * step + k * Lanes), &c_sum = W::at(sums + (2 * t + 1) * step + k * Lanes);
        const Vec grad = W::fma(read[k], dy, carried[k]);
        c_sum = W::fma(now[k], dy, c_sum);
        b_sum = W::fma(grad, drive, b_sum);
        r = W::fma(write[k], grad, r);
        now[k] = W::at(before + k * Lanes);
        a = W::fma(grad, now[k], a);
        carried[k] = of.decay[at] * grad;
      }
      W::at(r_at) = r, W::at(a_at) = a;
    }
  }

  FOX_HD void grad_x(int64_t at) const {
    const MambaSizes& sizes = of.sizes;
    const int64_t t = at / sizes.heads, m = at % sizes.heads, column = m * sizes.head;
    float* to = of.grad_u + t * sizes.width() + sizes.hidden() + column;
    const float *r = of.r + at * sizes.head, *dy = of.grad_y + at * sizes.head;
    FOX_LANES
    for (int64_t p = 0; p < sizes.head; ++p) to[p] = mamba_grad_x(of.step[at], r[p], of.d[m], dy[p]);
  }
};
}  // namespace fox
