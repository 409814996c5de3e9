// The closed form of a leaky unit that relaxes from its last state towards a candidate for dt seconds.
#pragma once
#include <tuple>
#include "row.h"

namespace fox {
// candidate = tanh((in + rec) + b); decay = exp(-(dt / tau)); h = candidate + (h_prev - candidate) * decay; all rounded
// apart.
template <class T> struct CfcFwd {
  const T *drive_in, *drive_rec, *b, *h_prev, *dt, *tau;
  T *candidate, *decay, *h;
  Spans spans;
  FOX_HD void operator()(int64_t i) const {
    int64_t row = spans.row(i), end = spans.end(i), offset = row * spans.size;
    T seconds = dt[row];
    FOX_LANES
    for (int64_t j = spans.begin(i); j < end; ++j) {
      T target = px::one_nan(px::tanh(drive_in[offset + j] + drive_rec[offset + j] + b[j]));
      T share = px::one_nan(px::exp(-(seconds / tau[j])));
      candidate[offset + j] = target;
      decay[offset + j] = share;
      h[offset + j] = px::one_nan(target + (h_prev[offset + j] - target) * share);
    }
  }
};

// grad_drive = (dh * (1 - decay)) * (1 - candidate^2); grad_tau = (((dh * (h_prev - candidate)) * decay) * dt) / tau^2.
template <class T> struct CfcBwd {
  const T *candidate, *decay, *h_prev, *dt, *tau, *grad_h;
  T *grad_drive, *grad_tau;
  Spans spans;
  FOX_HD void operator()(int64_t i) const {
    int64_t row = spans.row(i), end = spans.end(i), offset = row * spans.size;
    T seconds = dt[row];
    FOX_LANES
    for (int64_t j = spans.begin(i); j < end; ++j) {
      int64_t e = offset + j;
      T target = candidate[e], share = decay[e], grad = grad_h[e];
      grad_drive[e] = px::one_nan(grad * (T(1) - share) * (T(1) - target * target));
      grad_tau[e] = px::one_nan(grad * (h_prev[e] - target) * share * seconds / (tau[j] * tau[j]));
    }
  }
};

template <class On, class T>
std::tuple<Tensor, Tensor, Tensor> cfc_fwd_as(const Tensor& drive_in, const Tensor& drive_rec, const Tensor& b,
                                              const Tensor& h_prev, const Tensor& dt, const Tensor& tau) {
  int64_t batch = drive_in.size(0), hidden = drive_in.size(1);
  Tensor candidate = make<T>(b, {batch, hidden}), decay = make<T>(b, {batch, hidden}), h = make<T>(b, {batch, hidden});
  Spans spans{hidden, On::span(hidden)};
  On::rows(b, batch * spans.per_row(), 32,
           CfcFwd<T>{in<T>(drive_in, "drive_in", {batch, hidden}), in<T>(drive_rec, "drive_rec", {batch, hidden}),
                     in<T>(b, "b", {hidden}), in<T>(h_prev, "h_prev", {batch, hidden}), in<T>(dt, "dt", {batch}),
                     in<T>(tau, "tau", {hidden}), out<T>(candidate), out<T>(decay), out<T>(h), spans});
  return {candidate, decay, h};
}
template <class On>
std::tuple<Tensor, Tensor, Tensor> cfc_fwd(Tensor drive_in, Tensor drive_rec, Tensor b, Tensor h_prev, Tensor dt,
                                           Tensor tau) {
  FOX_CHECK(drive_in.dim() == 2, "drive_in must be 2-D");
  return is_double(drive_in) ? cfc_fwd_as<On, double>(drive_in, drive_rec, b, h_prev, dt, tau)
                             : cfc_fwd_as<On, float>(drive_in, drive_rec, b, h_prev, dt, tau);
}

template <class On, class T>
std::tuple<Tensor, Tensor> cfc_bwd_as(const Tensor& candidate, const Tensor& decay, const Tensor& h_prev,
                                      const Tensor& dt, const Tensor& tau, const Tensor& grad_h) {
  int64_t batch = candidate.size(0), hidden = candidate.size(1);
  Tensor grad_drive = make<T>(tau, {batch, hidden}), grad_tau = make<T>(tau, {batch, hidden});
  Spans spans{hidden, On::span(hidden)};
  On::rows(tau, batch * spans.per_row(), 64,
           CfcBwd<T>{in<T>(candidate, "candidate", {batch, hidden}), in<T>(decay, "decay", {batch, hidden}),
                     in<T>(h_prev, "h_prev", {batch, hidden}), in<T>(dt, "dt", {batch}), in<T>(tau, "tau", {hidden}),
                     in<T>(grad_h, "grad_h", {batch, hidden}), out<T>(grad_drive), out<T>(grad_tau), spans});
  return {grad_drive, grad_tau};
}
template <class On>
std::tuple<Tensor, Tensor> cfc_bwd(Tensor candidate, Tensor decay, Tensor h_prev, Tensor dt, Tensor tau,
                                   Tensor grad_h) {
  FOX_CHECK(candidate.dim() == 2, "candidate must be 2-D");
  return is_double(candidate) ? cfc_bwd_as<On, double>(candidate, decay, h_prev, dt, tau, grad_h)
                              : cfc_bwd_as<On, float>(candidate, decay, h_prev, dt, tau, grad_h);
}
}  // namespace fox
