// The Mamba-2 mixer as a recurrence over the window: sizes, layout of u, and the way forward.
#pragma once
#include <tuple>
#include "row.h"

namespace fox {
// Of a window's states those after every `every` steps are kept; a backward pass makes the others anew.
struct MambaSizes {
  int64_t batch, steps, heads, state, head, every;
  FOX_HD int64_t kept() const { return steps / every; }
  FOX_HD int64_t hidden() const { return heads * head; }
  FOX_HD int64_t b() const { return 2 * hidden(); }
  FOX_HD int64_t c() const { return b() + state; }
  FOX_HD int64_t delta() const { return c() + state; }
  FOX_HD int64_t width() const { return delta() + heads; }
  FOX_HD int64_t block() const { return state * head; }
};

// step = softplus(delta + dt_bias); decay = exp(-(step * exp(a_log))).
template <class T> FOX_HD T mamba_step(T delta, T dt_bias) { return px::softplus(delta + dt_bias); }
template <class T> FOX_HD T mamba_decay(T step, T a_log) { return px::exp(-(step * px::exp(a_log))); }

template <class T> struct MambaStep {
  const T *u, *dt_bias, *a_log;
  T *step, *decay;
  MambaSizes sizes;
  Spans spans;
  FOX_HD void operator()(int64_t i) const {
    int64_t row = spans.row(i), end = spans.end(i);
    const T* delta = u + row * sizes.width() + sizes.delta();
    for (int64_t m = spans.begin(i); m < end; ++m) {
      T seconds = mamba_step(delta[m], dt_bias[m]);
      step[row * sizes.heads + m] = seconds;
      decay[row * sizes.heads + m] = mamba_decay(seconds, a_log[m]);
    }
  }
};

// One element of S_t, from drive = step * B and the same element of S_{t-1}.
template <class T> FOX_HD T mamba_next(T decay, T before, T drive, T x) {
  return px::one_nan(px::fma(decay, before, drive * x));
}
template <class T> FOX_HD T mamba_y(T skip, T x, T sum) { return px::one_nan(px::fma(skip, x, sum)); }

// S_t = fma(decay, S_{t-1}, (step * B) * x) with S_{-1} = 0; y = fma(d, x, sum over n of C S_t, a fused chain).
// A row is up to Lanes columns p of one head of one batch row. A state that is not kept lies where the next kept one will.
template <class T, int Lanes> struct MambaScan {
  const T *u, *step, *decay, *d;
  T *state, *y;
  MambaSizes sizes;
  Spans spans;

  FOX_HD void operator()(int64_t i) const {
    int64_t p = spans.begin(i), lanes = spans.end(i) - p;
    if (lanes == Lanes) return scan(spans.row(i), p, Lanes);
    scan(spans.row(i), p, lanes);
  }

  FOX_HD void scan(int64_t row, int64_t p, int64_t lanes) const {
    int64_t m = row % sizes.heads, first = row / sizes.heads * sizes.steps;
    advance<true>(first, m, p, lanes);
    for (int64_t t = first + 1; t < first + sizes.steps; ++t) advance<false>(t, m, p, lanes);
  }

  template <bool First> FOX_HD void advance(int64_t t, int64_t m, int64_t p, int64_t lanes) const {
    const T *from = u + t * sizes.width(), *x = from + sizes.hidden() + m * sizes.head + p;
    T seconds = step[t * sizes.heads + m], keep = decay[t * sizes.heads + m], skip = d[m], sum[Lanes];
    T* now = state + (quotient(t, sizes.every) * sizes.heads + m) * sizes.block() + p;
    const T* before = state + (quotient(First ? t : t - 1, sizes.every) * sizes.heads + m) * sizes.block() + p;
    for (int64_t j = 0; j < lanes; ++j) sum[j] = T(0);
    for (int64_t n = 0; n < sizes.state; ++n) {
      T drive = seconds * from[sizes.b() + n], read = from[sizes.c() + n];
      FOX_LANES
      for (int64_t j = 0; j < lanes; ++j) {
        T next = mamba_next(keep, First ? T(0) : before[n * sizes.head + j], drive, x[j]);
        now[n * sizes.head + j] = next;
        sum[j] = px::fma(read, next, sum[j]);
      }
    }
    T* to = y + t * sizes.hidden() + m * sizes.head + p;
    for (int64_t j = 0; j < lanes; ++j) to[j] = mamba_y(skip, x[j], sum[j]);
  }
};

// gated = y * (z * sigmoid(z)).
template <class T> FOX_HD T mamba_gated(T y, T z) { return px::one_nan(y * (z * px::sigmoid(z))); }

template <class T> struct MambaGate {
  const T *u, *y;
  T* gated;
  MambaSizes sizes;
  Spans spans;
  FOX_HD void operator()(int64_t i) const {
    int64_t row = spans.row(i), end = spans.end(i), offset = row * spans.size;
    const T* z = u + row * sizes.width();
    FOX_LANES
    for (int64_t j = spans.begin(i); j < end; ++j) gated[offset + j] = mamba_gated(y[offset + j], z[j]);
  }
};

inline MambaSizes mamba_sizes(const Tensor& u, const Tensor& dt_bias, int64_t state, int64_t every) {
  FOX_CHECK(u.dim() == 3 && dt_bias.dim() == 1, "u must be 3-D and dt_bias 1-D");
  int64_t heads = dt_bias.size(0), rest = u.size(2) - 2 * state - heads;
  FOX_CHECK(heads > 0 && state > 0 && rest > 0 && rest % (2 * heads) == 0, "u must hold 2 H + 2 N + M columns, got ",
            u.size(2));
  FOX_CHECK(u.size(1) > 0 && every > 0 && u.size(1) % every == 0, "u must have steps, and whole parts of `every`");
  return {u.size(0), u.size(1), heads, state, rest / (2 * heads), every};
}

// A whole way forward.
template <class T> struct MambaForward {
  const T *u, *dt_bias, *a_log, *d;
  T *state, *y, *gated;
  MambaSizes sizes;
};

// In three passes, or as a `staged(like, of)` of the device holds it in one.
template <class On, class T> void mamba_passes(const Tensor& like, const MambaForward<T>& of) {
  if constexpr (requires { staged(like, of); })
    if (staged(like, of)) return;
  const MambaSizes& s = of.sizes;
  int64_t rows = s.batch * s.steps;
  Tensor step = make<T>(like, {rows, s.heads}), decay = make<T>(like, {rows, s.heads});
  Spans heads{s.heads, On::span(s.heads)}, columns{s.head, On::lanes}, channels{s.hidden(), On::span(s.hidden())};
  On::rows(like, rows * heads.per_row(), 128,
           MambaStep<T>{of.u, of.dt_bias, of.a_log, out<T>(step), out<T>(decay), s, heads});
  On::rows(like, s.batch * s.heads * columns.per_row(), 16,
           MambaScan<T, On::lanes>{of.u, out<T>(step), out<T>(decay), of.d, of.state, of.y, s, columns});
  On::rows(like, rows * channels.per_row(), 128, MambaGate<T>{of.u, of.y, of.gated, s, channels});
}

template <class On, class T>
std::tuple<Tensor, Tensor, Tensor> mamba_fwd_as(const Tensor& u, const Tensor& dt_bias, const Tensor& a_log,
                                                const Tensor& d, int64_t state_size, int64_t every) {
  MambaSizes s = mamba_sizes(u, dt_bias, state_size, every);
  Tensor state = make<T>(u, {s.batch, s.kept(), s.heads, s.state, s.head});
  Tensor y = make<T>(u, {s.batch, s.steps, s.hidden()}), gated = make<T>(u, {s.batch, s.steps, s.hidden()});
  mamba_passes<On, T>(
      u, {in<T>(u, "u", {s.batch, s.steps, s.width()}), in<T>(dt_bias, "dt_bias", {s.heads}),
          in<T>(a_log, "a_log", {s.heads}), in<T>(d, "d", {s.heads}), out<T>(state), out<T>(y), out<T>(gated), s});
  return {state, y, gated};
}
template <class On>
std::tuple<Tensor, Tensor, Tensor> mamba_fwd(Tensor u, Tensor dt_bias, Tensor a_log, Tensor d, int64_t state_size,
                                             int64_t every) {
  return is_double(u) ? mamba_fwd_as<On, double>(u, dt_bias, a_log, d, state_size, every)
                      : mamba_fwd_as<On, float>(u, dt_bias, a_log, d, state_size, every);
}
}  // namespace fox
