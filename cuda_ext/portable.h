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
FOX_HD float sqrt(float x) { return sqrtf(x); }
FOX_HD double sqrt(double x) { return ::sqrt(x); }
}  // namespace px
