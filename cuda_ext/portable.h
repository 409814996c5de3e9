// exp, log, tanh … with one result on every processor: fmaf, add, divide and bit moves only, no libm, no libdevice.
// float64 overloads serve gradcheck alone and use std.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include "hd.h"

namespace px {
FOX_HD float from_bits(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
FOX_HD uint32_t to_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }

FOX_HD float exp(float x) {
  x = x < -87.f ? -87.f : (x > 88.f ? 88.f : x);
  float k = fmaf(x, 1.44269504f, 12582912.f);
  uint32_t ki = to_bits(k);
  k = k - 12582912.f;
  float r = fmaf(k, -0.693145751953125f, x);
  r = fmaf(k, -1.428606765330187e-06f, r);
  float p = 1.3888889e-3f;
  p = fmaf(p, r, 8.3333333e-3f);
  p = fmaf(p, r, 4.1666668e-2f);
  p = fmaf(p, r, 1.6666667e-1f);
  p = fmaf(p, r, 0.5f);
  p = fmaf(p, r, 1.0f);
  p = fmaf(p, r, 1.0f);
  return p * from_bits((ki - 0x4B400000u + 127u) << 23);
}
FOX_HD double exp(double x) { return ::exp(x); }
FOX_HD float fma(float a, float b, float c) { return fmaf(a, b, c); }
FOX_HD double fma(double a, double b, double c) { return ::fma(a, b, c); }
FOX_HD float log(float x) {
  uint32_t u = to_bits(x) - 0x3F3504F3u;
  float k = static_cast<float>(static_cast<int32_t>(u) >> 23);
  float m = from_bits((u & 0x007FFFFFu) + 0x3F3504F3u);
  float s = (m - 1.f) / (m + 1.f), z = s * s;
  float p = fmaf(z, 0.22222222f, 0.28571429f);
  p = fmaf(p, z, 0.4f);
  p = fmaf(p, z, 0.66666667f);
  p = fmaf(p, z, 2.f);
  return fmaf(k, 0.69314718f, p * s);
}
FOX_HD double log(double x) { return ::log(x); }
FOX_HD float log1p(float x) {
  float u = 1.f + x, d = u - 1.f;
  return d == 0.f ? x : log(u) * (x / d);
}
FOX_HD double log1p(double x) { return ::log1p(x); }
template <class T> FOX_HD T sigmoid(T x) { return T(1) / (T(1) + exp(-x)); }
template <class T> FOX_HD T softplus(T x) { return (x > T(0) ? x : T(0)) + log1p(exp(x > T(0) ? -x : x)); }
FOX_HD float tanh(float x) {
  float a = x < 0.f ? -x : x, e = exp(-2.f * a), t = (1.f - e) / (1.f + e), x2 = x * x;
  float s = fmaf(x2, fmaf(x2, fmaf(x2, -5.3968254e-2f, 1.3333334e-1f), -3.3333334e-1f), 1.0f) * a;
  t = a < 0.25f ? s : t;
  return x < 0.f ? -t : t;
}
FOX_HD double tanh(double x) { return ::tanh(x); }
FOX_HD float sqrt(float x) { return sqrtf(x); }
FOX_HD double sqrt(double x) { return ::sqrt(x); }
}  // namespace px
