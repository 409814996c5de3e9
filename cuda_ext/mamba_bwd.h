// The Mamba-2 recurrence backwards: from the last step down for each column p, then sums over columns.
#pragma once
#include "mamba.h"

namespace fox {
// What the passes below share. Scratch: step, decay, log_terms [B,T,M]; grad_y [B,T,M,P]; grad_state [B,M,N,P];
// of each column p, before the sums over p: b, c [B,T,N,P] and r, a [B,T,M,P]. `kept` holds the kept states, `state`
// every one of them, in passes that make none anew.
template <class T> struct MambaBuffers {
  const T *u, *kept, *y, *dt_bias, *a_log, *d, *grad_gated;
  const T* state;
  T *grad_u, *grad_dt_bias, *grad_a_log, *grad_d;
  T *step, *decay, *log_terms, *grad_y, *grad_state, *b, *c, *r, *a;
  MambaSizes sizes;
};

// s = sigmoid(z): dy = dgated * (z * s); dz = ((dgated * y) * s) * (1 + z * (1 - s)).
template <class T> FOX_HD T mamba_grad_y(T grad, T z, T s) { return grad * (z * s); }
template <class T> FOX_HD T mamba_grad_z(T grad, T y, T z, T s) {
  return px::one_nan(grad * y * s * (T(1) + z * (T(1) - s)));
}

template <class T> struct MambaGateBwd {
  MambaBuffers<T> of;
  Spans spans;
  FOX_HD void operator()(int64_t i) const {
    int64_t row = spans.row(i), end = spans.end(i), offset = row * spans.size;
    const T* z = of.u + row * of.sizes.width();
    T* grad_z = of.grad_u + row * of.sizes.width();
    for (int64_t j = spans.begin(i); j < end; ++j) {
      T s = px::sigmoid(z[j]), grad = of.grad_gated[offset + j];
      of.grad_y[offset + j] = mamba_grad_y(grad, z[j], s);
      grad_z[j] = mamba_grad_z(grad, of.y[offset + j], z[j], s);
    }
  }
};

template <class T> FOX_HD T mamba_grad_x(T step, T r, T d, T dy) { return px::one_nan(step * r + d * dy); }

// From t = T-1 down, heads ascending inside t, G = 0 at first and every sum a fused chain:
// G = fma(C, dy, G); c[n,p] = sum over m of S_t dy; b[n,p] = sum over m of G (step x); r[m,p] = sum over n of G B;
// a[m,p] = sum over n of G S_{t-1}; dx = step * r + d * dy, rounded apart; G = decay * G.
// A row is up to Lanes columns p of one batch row.
template <class T, int Lanes> struct MambaScanBwd {
  MambaBuffers<T> of;
  Spans spans;

  FOX_HD void operator()(int64_t i) const {
    int64_t p = spans.begin(i), lanes = spans.end(i) - p;
    if (lanes == Lanes) return scan(spans.row(i), p, Lanes);
    scan(spans.row(i), p, lanes);
  }

  FOX_HD void scan(int64_t row, int64_t p, int64_t lanes) const {
    int64_t block = of.sizes.block(), first = row * of.sizes.steps;
    T* carried = of.grad_state + row * of.sizes.heads * block + p;
    clear(carried, of.sizes.heads * of.sizes.state, lanes);
    for (int64_t t = first + of.sizes.steps - 1; t >= first; --t) {
      clear(of.b + t * block + p, of.sizes.state, lanes);
      clear(of.c + t * block + p, of.sizes.state, lanes);
      for (int64_t m = 0; m < of.sizes.heads; ++m)
        t == first ? head<true>(t, m, p, lanes, carried + m * block) : head<false>(t, m, p, lanes, carried + m * block);
    }
  }

  FOX_HD void clear(T* to, int64_t count, int64_t lanes) const {
    for (int64_t n = 0; n < count; ++n) {
      FOX_LANES
      for (int64_t j = 0; j < lanes; ++j) to[n * of.sizes.head + j] = T(0);
    }
  }

  template <bool First> FOX_HD void head(int64_t t, int64_t m, int64_t p, int64_t lanes, T* carried) const {
    const MambaSizes& sizes = of.sizes;
    int64_t column = m * sizes.head + p, at = t * sizes.heads + m;
    const T *from = of.u + t * sizes.width(), *x = from + sizes.hidden() + column;
    const T *dy = of.grad_y + t * sizes.hidden() + column, *now = of.state + at * sizes.block() + p;
    const T* before = now - (First ? 0 : sizes.heads * sizes.block());
    T *b = of.b + t * sizes.block() + p, *c = of.c + t * sizes.block() + p;
    T keep = of.decay[at], seconds = of.step[at], r[Lanes], a[Lanes], drive[Lanes];
    for (int64_t j = 0; j < lanes; ++j) {
      r[j] = T(0);
      a[j] = T(0);
      drive[j] = seconds * x[j];
    }
    for (int64_t n = 0; n < sizes.state; ++n) {
      T write = from[sizes.b() + n], read = from[sizes.c() + n];
      FOX_LANES
      for (int64_t j = 0; j < lanes; ++j) {
        int64_t e = n * sizes.head + j;
        T grad = px::fma(read, dy[j], carried[e]);
        c[e] = px::fma(now[e], dy[j], c[e]);
        b[e] = px::fma(grad, drive[j], b[e]);
        r[j] = px::fma(grad, write, r[j]);
        a[j] = px::fma(grad, First ? T(0) : before[e], a[j]);
        carried[e] = keep * grad;
      }
    }
    T* grad_x = of.grad_u + t * sizes.width() + sizes.hidden() + column;
    for (int64_t j = 0; j < lanes; ++j) {
      of.r[at * sizes.head + p + j] = r[j];
      of.a[at * sizes.head + p + j] = a[j];
      grad_x[j] = mamba_grad_x(seconds, r[j], of.d[m], dy[j]);
    }
  }
};

// dB[n] and dC[n]: their columns summed over p ascending.
template <class T, int Group> struct MambaJoin {
  MambaBuffers<T> of;
  FOX_HD void operator()(int64_t i) const {
    grouped<Group>(*this, i, of.sizes.batch * of.sizes.steps * of.sizes.state);
  }
  template <int G> FOX_HD void rows(int64_t first) const {
    const MambaSizes& sizes = of.sizes;
    T b[G], c[G];
    sum_rows_of<G>(of.b + first * sizes.head, sizes.head, b);
    sum_rows_of<G>(of.c + first * sizes.head, sizes.head, c);
    for (int r = 0; r < G; ++r) {
      T* to = of.grad_u + (first + r) / sizes.state * sizes.width() + (first + r) % sizes.state;
      to[sizes.b()] = px::one_nan(b[r]);
      to[sizes.c()] = px::one_nan(c[r]);
    }
  }
};

// da = sum over p ascending of a; s = (da * decay) * exp(a_log); dstep = (sum over p of r x, a fused chain) - s;
// ddelta = dstep * sigmoid(delta + dt_bias); log_terms = s * step.
template <class T> FOX_HD T mamba_grad_rate(T da, T decay, T a_log) { return da * decay * px::exp(a_log); }
template <class T> FOX_HD T mamba_grad_delta(T along, T s, T shifted) {
  return px::one_nan((along - s) * px::sigmoid(shifted));
}

template <class T, int Group> struct MambaStepBwd {
  MambaBuffers<T> of;
  FOX_HD void operator()(int64_t i) const {
    grouped<Group>(*this, i, of.sizes.batch * of.sizes.steps * of.sizes.heads);
  }
  template <int G> FOX_HD void rows(int64_t first) const {
    const MambaSizes& sizes = of.sizes;
    T da[G], along[G], shifted[G], rate[G];
    const T* x[G];
    T* grad[G];
    sum_rows_of<G>(of.a + first * sizes.head, sizes.head, da);
    for (int r = 0; r < G; ++r) {
      int64_t m = (first + r) % sizes.heads, row = (first + r) / sizes.heads * sizes.width();
      const T* from = of.u + row;
      grad[r] = of.grad_u + row + sizes.delta() + m;
      x[r] = from + sizes.hidden() + m * sizes.head;
      shifted[r] = from[sizes.delta() + m] + of.dt_bias[m];
      rate[r] = of.a_log[m];
      along[r] = T(0);
    }
    for (int64_t p = 0; p < sizes.head; ++p)
      FOX_UNROLL
      for (int r = 0; r < G; ++r) along[r] = px::fma(of.r[(first + r) * sizes.head + p], x[r][p], along[r]);
    for (int r = 0; r < G; ++r) {
      T s = mamba_grad_rate(da[r], of.decay[first + r], rate[r]);
      of.log_terms[first + r] = s * of.step[first + r];
      shifted[r] = mamba_grad_delta(along[r], s, shifted[r]);
    }
    for (int r = 0; r < G; ++r) *grad[r] = shifted[r];
  }
};

// Of one head of one batch row: d dt_bias = sum of ddelta, t ascending; d a_log = 0 - log_terms, from t = T-1 down;
// dd = sum of dy x, a fused chain, t ascending and p inside t.
template <class T, int Group> struct MambaParameters {
  MambaBuffers<T> of;
  FOX_HD T bias(const T* grad_delta, int64_t stride) const {
    T sum = T(0);
    FOX_WALK
    for (int64_t t = 0; t < of.sizes.steps; ++t) sum = sum + grad_delta[t * stride];
    return px::one_nan(sum);
  }
  FOX_HD T rate(const T* log_terms, int64_t stride) const {
    T sum = T(0);
    FOX_WALK
    for (int64_t t = of.sizes.steps - 1; t >= 0; --t) sum = sum - log_terms[t * stride];
    return px::one_nan(sum);
  }
  FOX_HD T skip(const T* x, int64_t x_stride, const T* dy, int64_t dy_stride) const {
    T sum = T(0);
    for (int64_t t = 0; t < of.sizes.steps; ++t)
      FOX_WALK
      for (int64_t p = 0; p < of.sizes.head; ++p) sum = px::fma(dy[t * dy_stride + p], x[t * x_stride + p], sum);
    return px::one_nan(sum);
  }
  FOX_HD void operator()(int64_t i) const { grouped<Group>(*this, i, of.sizes.batch * of.sizes.heads); }
  template <int G> FOX_HD void rows(int64_t first) const {
    const MambaSizes& sizes = of.sizes;
    T skip[G];
    const T *x[G], *dy[G];
    for (int r = 0; r < G; ++r) {
      int64_t row = (first + r) / sizes.heads * sizes.steps, m = (first + r) % sizes.heads;
      of.grad_dt_bias[first + r] = bias(of.grad_u + row * sizes.width() + sizes.delta() + m, sizes.width());
      of.grad_a_log[first + r] = rate(of.log_terms + row * sizes.heads + m, sizes.heads);
      x[r] = of.u + row * sizes.width() + sizes.hidden() + m * sizes.head;
      dy[r] = of.grad_y + row * sizes.hidden() + m * sizes.head;
      skip[r] = T(0);
    }
    for (int64_t t = 0; t < sizes.steps; ++t)
      for (int64_t p = 0; p < sizes.head; ++p)
        FOX_UNROLL
        for (int r = 0; r < G; ++r)
          skip[r] = px::fma(dy[r][t * sizes.hidden() + p], x[r][t * sizes.width() + p], skip[r]);
    for (int r = 0; r < G; ++r) of.grad_d[first + r] = px::one_nan(skip[r]);
  }
};

// All states of every window, as the way forward made them.
template <class On, class T> Tensor mamba_states(const Tensor& like, const MambaBuffers<T>& of) {
  MambaSizes s = of.sizes;
  s.every = 1;
  Tensor state = make<T>(like, {s.batch, s.steps, s.heads, s.state, s.head});
  Tensor y = make<T>(like, {s.batch, s.steps, s.hidden()});
  Spans columns{s.head, On::lanes};
  On::rows(like, s.batch * s.heads * columns.per_row(), 16,
           MambaScan<T, On::lanes>{of.u, of.step, of.decay, of.d, out<T>(state), out<T>(y), s, columns});
  return state;
}

// In six passes, and one for the states that were not kept.
template <class On, class T> void mamba_bwd_passes(const Tensor& like, MambaBuffers<T> of) {
  const MambaSizes& s = of.sizes;
  int64_t rows = s.batch * s.steps;
  Tensor step = make<T>(like, {rows, s.heads}), decay = make<T>(like, {rows, s.heads});
  Tensor log_terms = make<T>(like, {rows, s.heads}), grad_y = make<T>(like, {rows, s.hidden()});
  Tensor grad_state = make<T>(like, {s.batch, s.heads * s.block()});
  Tensor b = make<T>(like, {rows, s.block()}), c = make<T>(like, {rows, s.block()});
  Tensor r = make<T>(like, {rows, s.hidden()}), a = make<T>(like, {rows, s.hidden()});
  of.step = out<T>(step), of.decay = out<T>(decay), of.log_terms = out<T>(log_terms), of.grad_y = out<T>(grad_y);
  of.grad_state = out<T>(grad_state), of.b = out<T>(b), of.c = out<T>(c), of.r = out<T>(r), of.a = out<T>(a);
  Spans heads{s.heads, On::span(s.heads)}, columns{s.head, On::lanes}, channels{s.hidden(), On::span(s.hidden())};
  On::rows(like, rows * heads.per_row(), 128, MambaStep<T>{of.u, of.dt_bias, of.a_log, of.step, of.decay, s, heads});
  std::optional<Tensor> states;
  if (s.every > 1 && !On::makes_states(of)) states = mamba_states<On>(like, of);
  of.state = states ? out<T>(*states) : of.kept;
  On::rows(like, rows * channels.per_row(), 64, MambaGateBwd<T>{of, channels});
  On::rows(like, s.batch * columns.per_row(), 2, MambaScanBwd<T, On::lanes>{of, columns});
  On::rows(like, groups<On>(rows * s.state), 256, MambaJoin<T, On::group>{of});
  On::rows(like, groups<On>(rows * s.heads), 256, MambaStepBwd<T, On::group>{of});
  On::rows(like, groups<On>(s.batch * s.heads), 16, MambaParameters<T, On::group>{of});
}

// By these passes, or as a `staged(like, of)` of the device holds them in one, without scratch.
template <class On, class T>
std::tuple<Tensor, Tensor, Tensor, Tensor> mamba_bwd_as(const Tensor& u, const Tensor& state, const Tensor& y,
                                                        const Tensor& dt_bias, const Tensor& a_log, const Tensor& d,
                                                        const Tensor& grad_gated) {
  FOX_CHECK(state.dim() == 5 && state.size(1) > 0 && u.size(1) % state.size(1) == 0,
            "state must be 5-D, its second axis a part of u's");
  MambaSizes s = mamba_sizes(u, dt_bias, state.size(3), u.size(1) / state.size(1));
  Tensor grad_u = make<T>(u, {s.batch, s.steps, s.width()}), grad_dt_bias = make<T>(u, {s.batch, s.heads});
  Tensor grad_a_log = make<T>(u, {s.batch, s.heads}), grad_d = make<T>(u, {s.batch, s.heads});
  MambaBuffers<T> of{};
  of.u = in<T>(u, "u", {s.batch, s.steps, s.width()});
  of.kept = in<T>(state, "state", {s.batch, s.kept(), s.heads, s.state, s.head});
  of.y = in<T>(y, "y", {s.batch, s.steps, s.hidden()});
  of.dt_bias = in<T>(dt_bias, "dt_bias", {s.heads});
  of.a_log = in<T>(a_log, "a_log", {s.heads});
  of.d = in<T>(d, "d", {s.heads});
  of.grad_gated = in<T>(grad_gated, "grad_gated", {s.batch, s.steps, s.hidden()});
  of.grad_u = out<T>(grad_u), of.grad_dt_bias = out<T>(grad_dt_bias), of.grad_a_log = out<T>(grad_a_log);
  of.grad_d = out<T>(grad_d), of.sizes = s;
  bool done = false;
  if constexpr (requires { staged(u, of); }) done = staged(u, of);
  if (!done) mamba_bwd_passes<On>(u, of);
  return {grad_u, grad_dt_bias, grad_a_log, grad_d};
}
template <class On>
std::tuple<Tensor, Tensor, Tensor, Tensor> mamba_bwd(Tensor u, Tensor state, Tensor y, Tensor dt_bias, Tensor a_log,
                                                     Tensor d, Tensor grad_gated) {
  return is_double(u) ? mamba_bwd_as<On, double>(u, state, y, dt_bias, a_log, d, grad_gated)
                      : mamba_bwd_as<On, float>(u, state, y, dt_bias, a_log, d, grad_gated);
}
}  // namespace fox
