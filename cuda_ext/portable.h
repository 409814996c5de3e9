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
FOX_HD float log(float x) {
  uint32_t u = to_bits(x);
  int32_t e = static_cast<int32_t>(u >> 23) - 126;
  float m = from_bits((u & 0x007FFFFFu) | 0x3F000000u);
  bool low = m < 0.707106781f;
  e = low ? e - 1 : e;
  m = (low ? m + m : m) - 1.f;
  float z = m * m, p = 7.0376836292e-2f;
  p = fmaf(p, m, -1.1514610310e-1f);
  p = fmaf(p, m, 1.1676998740e-1f);
  p = fmaf(p, m, -1.2420140846e-1f);
  p = fmaf(p, m, 1.4249322787e-1f);
  p = fmaf(p, m, -1.6668057665e-1f);
  p = fmaf(p, m, 2.0000714765e-1f);
  p = fmaf(p, m, -2.4999993993e-1f);
  p = fmaf(p, m, 3.3333331174e-1f);
  float k = static_cast<float>(e), y = p * m * z;
  y = fmaf(k, -2.12194440e-4f, y);
  y = fmaf(z, -0.5f, y);
  return fmaf(k, 0.693359375f, m + y);
}
FOX_HD float log1p(float x) {
  float u = 1.f + x;
  return u == 1.f ? x : log(u) * (x / (u - 1.f));
}
FOX_HD float pow(float x, float y) { return exp(y * log(x)); }
FOX_HD float sin_quarters(float x, int32_t quarters) {
  float k = fmaf(x, 0.636619772f, 12582912.f);
  int32_t q = static_cast<int32_t>(to_bits(k)) + quarters;
  k = k - 12582912.f;
  float r = fmaf(k, -1.5703125f, x);
  r = fmaf(k, -4.83751296997e-4f, r);
  r = fmaf(k, -7.54953362e-8f, r);
  float z = r * r;
  float s = fmaf(fmaf(fmaf(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f) * z, r, r);
  float c = fmaf(fmaf(fmaf(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f) * z, z, 1.f - 0.5f * z);
  float v = (q & 1) ? c : s;
  return (q & 2) ? -v : v;
}
FOX_HD float sin(float x) { return sin_quarters(x, 0); }
FOX_HD float cos(float x) { return sin_quarters(x, 1); }
FOX_HD double exp(double x) { return ::exp(x); }
FOX_HD float fma(float a, float b, float c) { return fmaf(a, b, c); }
FOX_HD double fma(double a, double b, double c) { return ::fma(a, b, c); }
FOX_HD float sqrt(float x) { return sqrtf(x); }
FOX_HD double sqrt(double x) { return ::sqrt(x); }
}  // namespace px
