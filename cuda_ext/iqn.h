// Implicit quantiles: the draws tau, their cosines, and the product of the state with the embedded quantile.
#pragma once
#include "check.h"
#include "prng.h"
#include "select.h"

#include <tuple>

namespace fox {
// cos of turns 2^-25 of a full turn, turns < 2^25. The nearest quarter is taken off in integers, which leaves t in
// [-1/2, 1/2) quarters, exactly; sin(pi/2 t) and cos(pi/2 t) are polynomials in t^2 (Chebyshev nodes on [0, 1/4]).
// Exact at every quarter, where zero is +0.
FOX_HD float cos_of_turns(uint32_t turns) {
  int32_t quarter = static_cast<int32_t>((turns + (1u << 22)) >> 23);
  int32_t rest = static_cast<int32_t>(turns) - (quarter << 23);
  float t = static_cast<float>((quarter & 3) == 1 ? -rest : rest) * 0x1p-23f, z = t * t;
  float s = fmaf(z, fmaf(z, fmaf(z, 1.5865151363e-4f, -4.6814749949e-3f), 7.9692609608e-2f), -6.4596408606e-1f);
  float c = fmaf(z, fmaf(z, fmaf(z, 9.0673990780e-4f, -2.0861528814e-2f), 2.5366941094e-1f), -1.2337005138f);
  float sine = fmaf(t, 1.5707963705f, t * fmaf(z, s, -4.3711388287e-8f)), cosine = fmaf(z, c, 1.f);
  return quarter & 1 ? sine : (quarter & 2 ? -cosine : cosine);
}

// The bits of quantile i, from a row's state.
FOX_HD uint32_t quantile_word(uint32_t state, int64_t i) {
  return fmix32(state + 0x9E3779B9u * (static_cast<uint32_t>(i) + 1u));
}

// tau = v 2^-24 with v odd, so that pi e tau is v e of 2^25 parts of a turn, reduced by the mask.
struct TauCos {
  const uint32_t* prng;
  float *tau, *cos;
  int64_t quantiles, cosines;
  FOX_HD uint32_t word(int64_t b, int64_t i) const { return quantile_word(prng[b], i); }
  FOX_HD static float cosine(uint32_t word, int64_t e) {
    return cos_of_turns(odd24(word) * static_cast<uint32_t>(e) & 0x1FFFFFFu);
  }
  FOX_HD void operator()(int64_t row) const {
    uint32_t x = word(row / quantiles, row % quantiles);
    float* to = cos + row * cosines;
    tau[row] = unit(x);
    for (int64_t e = 0; e < cosines; ++e) to[e] = cosine(x, e);
  }
};

template <class On> std::tuple<Tensor, Tensor> iqn_tau_cos(Tensor prng, int64_t quantiles, int64_t cosines) {
  FOX_CHECK(prng.dim() == 1 && quantiles > 0 && cosines > 0, "iqn_tau_cos takes a 1-D state and positive sizes");
  int64_t batch = prng.size(0);
  Tensor tau = make<float>(prng, {batch, quantiles}), cos = make<float>(prng, {batch, quantiles, cosines});
  On::tau_cos(prng, batch,
              TauCos{in<uint32_t>(prng, "prng", {batch}), out<float>(tau), out<float>(cos), quantiles, cosines});
  return {tau, cos};
}

// One row (b, i) of h relu(pre); -0 and negatives give h (+0), NaN passes.
template <class T> struct MixForward {
  const T *pre, *h;
  T* result;
  int64_t quantiles, hidden;
  FOX_HD static T of(T x, T state) { return px::one_nan(state * (x <= T(0) ? T(0) : x)); }
  FOX_HD void operator()(int64_t row) const {
    const T* __restrict__ x = pre + row * hidden;
    const T* __restrict__ state = h + row / quantiles * hidden;
    T* __restrict__ to = result + row * hidden;
    for (int64_t j = 0; j < hidden; ++j) to[j] = of(x[j], state[j]);
  }
};

template <class T> struct MixBackward {
  const T *pre, *h, *grad_out;
  T* grad_pre;
  int64_t quantiles, hidden;
  FOX_HD static T of(T x, T state, T grad) {
    T product = grad * state;
    return x <= T(0) ? T(0) : px::one_nan(product);
  }
  FOX_HD void operator()(int64_t row) const {
    const T* __restrict__ x = pre + row * hidden;
    const T* __restrict__ state = h + row / quantiles * hidden;
    const T* __restrict__ grad = grad_out + row * hidden;
    T* __restrict__ to = grad_pre + row * hidden;
    for (int64_t j = 0; j < hidden; ++j) to[j] = of(x[j], state[j], grad[j]);
  }
};

template <class On, class T> Tensor iqn_mix_fwd_as(const Tensor& pre, const Tensor& h) {
  int64_t batch = pre.size(0), quantiles = pre.size(1), hidden = pre.size(2);
  Tensor result = make<T>(pre, {batch, quantiles, hidden});
  On::rows(pre, batch * quantiles, grain_of(hidden),
           MixForward<T>{in<T>(pre, "pre", {batch, quantiles, hidden}), in<T>(h, "h", {batch, hidden}), out<T>(result),
                         quantiles, hidden});
  return result;
}
template <class On> Tensor iqn_mix_fwd(Tensor pre, Tensor h) {
  FOX_CHECK(pre.dim() == 3, "iqn_mix_fwd takes a 3-D pre");
  return is_double(pre) ? iqn_mix_fwd_as<On, double>(pre, h) : iqn_mix_fwd_as<On, float>(pre, h);
}

template <class On, class T> Tensor iqn_mix_bwd_as(const Tensor& pre, const Tensor& h, const Tensor& grad) {
  int64_t batch = pre.size(0), quantiles = pre.size(1), hidden = pre.size(2);
  Tensor result = make<T>(pre, {batch, quantiles, hidden});
  On::rows(pre, batch * quantiles, grain_of(hidden),
           MixBackward<T>{in<T>(pre, "pre", {batch, quantiles, hidden}), in<T>(h, "h", {batch, hidden}),
                          in<T>(grad, "grad_out", {batch, quantiles, hidden}), out<T>(result), quantiles, hidden});
  return result;
}
template <class On> Tensor iqn_mix_bwd(Tensor pre, Tensor h, Tensor grad) {
  FOX_CHECK(pre.dim() == 3, "iqn_mix_bwd takes a 3-D pre");
  return is_double(pre) ? iqn_mix_bwd_as<On, double>(pre, h, grad) : iqn_mix_bwd_as<On, float>(pre, h, grad);
}
}  // namespace fox
