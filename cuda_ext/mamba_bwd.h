// The Mamba-2 recurrence backwards: from the last step down for each column p, then sums over columns.
#pragma once
#include "mamba.h"

namespace fox {
// s = sigmoid(z): dy = dgated * (z * s); dz = ((dgated * y) * s) * (1 + z * (1 - s)).
template <class T> struct MambaGateBwd {
  const T *u, *y, *grad_gated;
  T *grad_y, *grad_u;
  MambaSizes sizes;
  Spans spans;
  FOX_HD void operator()(int64_t i) const {
    int64_t row = spans.row(i), end = spans.end(i), offset = row * spans.size;
    const T* z = u + row * sizes.width();
    T* grad_z = grad_u + row * sizes.width();
    for (int64_t j = spans.begin(i); j < end; ++j) {
      T s = px::sigmoid(z[j]), grad = grad_gated[offset + j];
      grad_y[offset + j] = grad * (z[j] * s);
      grad_z[j] = one_nan(grad * y[offset + j] * s * (T(1) + z[j] * (T(1) - s)));
    }
  }
};

// From t = T-1 down, heads ascending inside t, G = 0 at first and every sum a fused chain:
// G = fma(C, dy, G); c[n,p] = sum over m of S_t dy; b[n,p] = sum over m of G (step x); r[m,p] = sum over n of G B;
// a[m,p] = sum over n of G S_{t-1}; dx = step * r + d * dy, rounded apart; G = decay * G.
// A row is up to Lanes columns p of one batch row.
template <class T, int Lanes> struct MambaScanBwd {
  const T *u, *state, *step, *decay, *d, *grad_y;
  T *grad_state, *b_columns, *c_columns, *r_columns, *a_columns, *grad_u;
  MambaSizes sizes;
  Spans spans;

  FOX_HD void operator()(int64_t i) const {
    int64_t p = spans.begin(i), lanes = spans.end(i) - p;
    if (lanes == Lanes) return scan(spans.row(i), p, Lanes);
    scan(spans.row(i), p, lanes);
  }

  FOX_HD void scan(int64_t row, int64_t p, int64_t lanes) const {
    T* carried = grad_state + row * sizes.heads * sizes.block() + p;
    for (int64_t n = 0; n < sizes.heads * sizes.state; ++n)
      for (int64_t j = 0; j < lanes; ++j) carried[n * sizes.head + j] = T(0);
    for (int64_t t = (row + 1) * sizes.steps - 1; t >= row * sizes.steps; --t) {
      for (int64_t n = 0; n < sizes.state; ++n)
        for (int64_t j = 0; j < lanes; ++j) {
          b_columns[t * sizes.block() + n * sizes.head + p + j] = T(0);
          c_columns[t * sizes.block() + n * sizes.head + p + j] = T(0);
        }
      for (int64_t m = 0; m < sizes.heads; ++m)
        head(t, m, p, lanes, t == row * sizes.steps, carried + m * sizes.block());
    }
  }

  FOX_HD void head(int64_t t, int64_t m, int64_t p, int64_t lanes, bool first, T* carried) const {
    int64_t column = m * sizes.head + p, at = t * sizes.heads + m;
    const T *from = u + t * sizes.width(), *x = from + sizes.hidden() + column;
    const T *dy = grad_y + t * sizes.hidden() + column, *now = state + at * sizes.block() + p;
    const T* before = now - (first ? 0 : sizes.heads * sizes.block());
    T *b_sum = b_columns + t * sizes.block() + p, *c_sum = c_columns + t * sizes.block() + p;
    T keep = decay[at], seconds = step[at], r[Lanes], a[Lanes], drive[Lanes];
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
        c_sum[e] = px::fma(now[e], dy[j], c_sum[e]);
        b_sum[e] = px::fma(grad, drive[j], b_sum[e]);
        r[j] = px::fma(grad, write, r[j]);
        a[j] = px::fma(grad, first ? T(0) : before[e], a[j]);
        carried[e] = keep * grad;
      }
    }
    T* grad_x = grad_u + t * sizes.width() + sizes.hidden() + column;
    for (int64_t j = 0; j < lanes; ++j) {
      r_columns[at * sizes.head + p + j] = r[j];
      a_columns[at * sizes.head + p + j] = a[j];
      grad_x[j] = one_nan(seconds * r[j] + d[m] * dy[j]);
    }
  }
};

// dB[n] and dC[n]: their columns summed over p ascending.
template <class T, int Group> struct MambaJoin {
  const T *b_columns, *c_columns;
  T* grad_u;
  int64_t count;
  MambaSizes sizes;
  FOX_HD void operator()(int64_t i) const { grouped<Group>(*this, i, count); }
  template <int G> FOX_HD void rows(int64_t first) const {
    T b[G], c[G];
    sum_rows_of<G>(b_columns + first * sizes.head, sizes.head, b);
    sum_rows_of<G>(c_columns + first * sizes.head, sizes.head, c);
    for (int r = 0; r < G; ++r) {
      T* to = grad_u + (first + r) / sizes.state * sizes.width() + (first + r) % sizes.state;
      to[sizes.b()] = one_nan(b[r]);
      to[sizes.c()] = one_nan(c[r]);
    }
  }
};

// da = sum over p ascending of a; s = (da * decay) * exp(a_log); dstep = (sum over p of r x, a fused chain) - s;
// ddelta = dstep * sigmoid(delta + dt_bias); log_terms = s * step.
template <class T, int Group> struct MambaStepBwd {
  const T *u, *dt_bias, *a_log, *step, *decay, *r_columns, *a_columns;
  T *grad_u, *log_terms;
  int64_t count;
  MambaSizes sizes;
  FOX_HD void operator()(int64_t i) const { grouped<Group>(*this, i, count); }
  template <int G> FOX_HD void rows(int64_t first) const {
    T da[G], along[G], shifted[G], rate[G];
    sum_rows_of<G>(a_columns + first * sizes.head, sizes.head, da);
    for (int r = 0; r < G; ++r) {
      int64_t row = (first + r) / sizes.heads, m = (first + r) % sizes.heads;
      const T *from = u + row * sizes.width(), *x = from + sizes.hidden() + m * sizes.head;
      dot_rows_of<1>(r_columns + (first + r) * sizes.head, x, 0, sizes.head, along + r);
      shifted[r] = from[sizes.delta() + m] + dt_bias[m];
      rate[r] = a_log[m];
    }
    for (int r = 0; r < G; ++r) {
      T s = da[r] * decay[first + r] * px::exp(rate[r]);
      log_terms[first + r] = s * step[first + r];
      shifted[r] = one_nan((along[r] - s) * px::sigmoid(shifted[r]));
    }
    for (int r = 0; r < G; ++r)
      grad_u[(first + r) / sizes.heads * sizes.width() + sizes.delta() + (first + r) % sizes.heads] = shifted[r];
  }
};

// Of one head of one batch row: d dt_bias = sum of ddelta, t ascending; d a_log = 0 - log_terms, from t = T-1 down;
// dd = sum of dy x, a fused chain, t ascending and p inside t.
template <class T> struct MambaParameters {
  const T *u, *grad_u, *grad_y, *log_terms;
  T *grad_dt_bias, *grad_a_log, *grad_d;
  MambaSizes sizes;
  FOX_HD void operator()(int64_t i) const {
    int64_t m = i % sizes.heads, first = i / sizes.heads * sizes.steps, last = first + sizes.steps - 1;
    T bias = T(0), rate = T(0), skip = T(0);
    for (int64_t t = first; t <= last; ++t) {
      bias = bias + grad_u[t * sizes.width() + sizes.delta() + m];
      const T *x = u + t * sizes.width() + sizes.hidden() + m * sizes.head;
      const T *dy = grad_y + t * sizes.hidden() + m * sizes.head;
      for (int64_t p = 0; p < sizes.head; ++p) skip = px::fma(dy[p], x[p], skip);
    }
    for (int64_t t = last; t >= first; --t) rate = rate - log_terms[t * sizes.heads + m];
    grad_dt_bias[i] = one_nan(bias);
    grad_a_log[i] = one_nan(rate);
    grad_d[i] = one_nan(skip);
  }
};

template <class On, class T>
std::tuple<Tensor, Tensor, Tensor, Tensor> mamba_bwd_as(const Tensor& u, const Tensor& state, const Tensor& y,
                                                        const Tensor& dt_bias, const Tensor& a_log, const Tensor& d,
                                                        const Tensor& grad_gated) {
  FOX_CHECK(state.dim() == 5, "state must be 5-D");
  MambaSizes s = mamba_sizes(u, dt_bias, state.size(3));
  int64_t rows = s.batch * s.steps;
  auto scratch = [&](int64_t size) { return make<T>(u, {size}); };
  Tensor grad_u = make<T>(u, {s.batch, s.steps, s.width()}), grad_dt_bias = make<T>(u, {s.batch, s.heads});
  Tensor grad_a_log = make<T>(u, {s.batch, s.heads}), grad_d = make<T>(u, {s.batch, s.heads});
  Tensor step = scratch(rows * s.heads), decay = scratch(rows * s.heads), log_terms = scratch(rows * s.heads);
  Tensor grad_y = scratch(rows * s.hidden()), grad_state = scratch(s.batch * s.heads * s.block());
  Tensor b = scratch(rows * s.block()), c = scratch(rows * s.block());
  Tensor r = scratch(rows * s.hidden()), a = scratch(rows * s.hidden());
  const T *from = in<T>(u, "u", {s.batch, s.steps, s.width()}), *bias = in<T>(dt_bias, "dt_bias", {s.heads});
  const T *rate = in<T>(a_log, "a_log", {s.heads}), *skip = in<T>(d, "d", {s.heads});
  const T* states = in<T>(state, "state", {s.batch, s.steps, s.heads, s.state, s.head});
  Spans heads{s.heads, On::span(s.heads)}, columns{s.head, On::lanes}, channels{s.hidden(), On::span(s.hidden())};
  On::rows(u, rows * heads.per_row(), 128, MambaStep<T>{from, bias, rate, out<T>(step), out<T>(decay), s, heads});
  On::rows(u, rows * channels.per_row(), 64,
           MambaGateBwd<T>{from, in<T>(y, "y", {s.batch, s.steps, s.hidden()}),
                           in<T>(grad_gated, "grad_gated", {s.batch, s.steps, s.hidden()}), out<T>(grad_y),
                           out<T>(grad_u), s, channels});
  On::rows(u, s.batch * columns.per_row(), 2,
           MambaScanBwd<T, On::lanes>{from, states, out<T>(step), out<T>(decay), skip, out<T>(grad_y),
                                      out<T>(grad_state), out<T>(b), out<T>(c), out<T>(r), out<T>(a), out<T>(grad_u),
                                      s, columns});
  On::rows(u, groups<On>(rows * s.state), 256,
           MambaJoin<T, On::group>{out<T>(b), out<T>(c), out<T>(grad_u), rows * s.state, s});
  On::rows(u, groups<On>(rows * s.heads), 256,
           MambaStepBwd<T, On::group>{from, bias, rate, out<T>(step), out<T>(decay), out<T>(r), out<T>(a),
                                      out<T>(grad_u), out<T>(log_terms), rows * s.heads, s});
  On::rows(u, s.batch * s.heads, 64,
           MambaParameters<T>{from, out<T>(grad_u), out<T>(grad_y), out<T>(log_terms), out<T>(grad_dt_bias),
                              out<T>(grad_a_log), out<T>(grad_d), s});
  return {grad_u, grad_dt_bias, grad_a_log, grad_d};
}
template <class On>
std::tuple<Tensor, Tensor, Tensor, Tensor> mamba_bwd(Tensor u, Tensor state, Tensor y, Tensor dt_bias, Tensor a_log,
                                                     Tensor d, Tensor grad_gated) {
  return is_double(u) ? mamba_bwd_as<On, double>(u, state, y, dt_bias, a_log, d, grad_gated)
                      : mamba_bwd_as<On, float>(u, state, y, dt_bias, a_log, d, grad_gated);
}
}  // namespace fox
