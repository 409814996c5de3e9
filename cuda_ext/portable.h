// exp, log, tanh … with one result on every processor: fmaf, + - × ÷, bit moves and selects only, no libm, no libdevice.
// Worst error over all 2^32 inputs, in ulp, subnormal results included (benchmarks/sweep_portable.cpp): exp 0.89, log 0.93,
// log1p 1.54, tanh 1.59, sigmoid 1.48, softplus 1.99, sin 1.49, cos 1.50. A NaN result is 0x7FC00000.
// No branches, so that loops over them vectorise. float64 overloads serve gradcheck and use std.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include "hd.h"

namespace px {
FOX_HD float from_bits(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
FOX_HD uint32_t to_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
// `yes ? a : b` by masks: a ?: between computed values lets the compiler thread jumps through a loop, which then is scalar.
FOX_HD uint32_t select(bool yes, uint32_t a, uint32_t b) {
  uint32_t mask = 0u - static_cast<uint32_t>(yes);
  return (a & mask) | (b & ~mask);
}
FOX_HD float select(bool yes, float a, float b) { return from_bits(select(yes, to_bits(a), to_bits(b))); }
FOX_HD double select(bool yes, double a, double b) { return yes ? a : b; }
FOX_HD float nan_bits() { return from_bits(0x7FC00000u); }
// Arithmetic on NaN leaves another payload on each processor; what a kernel writes goes through here.
FOX_HD float one_nan(float x) { return select(x != x, nan_bits(), x); }
FOX_HD double one_nan(double x) { return x; }
FOX_HD float infinity() { return from_bits(0x7F800000u); }
FOX_HD float abs(float x) { return from_bits(to_bits(x) & 0x7FFFFFFFu); }
FOX_HD float with_sign_of(float x, float sign) { return from_bits(to_bits(x) | (to_bits(sign) & 0x80000000u)); }
FOX_HD double abs(double x) { return ::fabs(x); }
FOX_HD float fma(float a, float b, float c) { return fmaf(a, b, c); }
FOX_HD double fma(double a, double b, double c) { return ::fma(a, b, c); }
FOX_HD float sqrt(float x) { return select(x >= 0.f, sqrtf(x), nan_bits()); }
FOX_HD double sqrt(double x) { return ::sqrt(x); }

// x = k log 2 + r, |r| <= log 2 / 2; e^r by a polynomial, times 2^k in two factors, so that it rounds once.
FOX_HD float exp(float x) {
  float within = select(x < -104.f, -104.f, select(x > 89.f, 89.f, x));
  float shifted = fmaf(within, 1.44269504f, 12582912.f);
  int32_t k = static_cast<int32_t>(to_bits(shifted) - 0x4B400000u);
  float whole = shifted - 12582912.f;
  float r = fmaf(whole, -0.693145751953125f, within);
  r = fmaf(whole, -1.428606765330187e-06f, r);
  float p = 0.0013821236f;
  p = fmaf(p, r, 0.008368666f);
  p = fmaf(p, r, 0.04166826f);
  p = fmaf(p, r, 0.16666521f);
  p = fmaf(p, r, 0.49999994f);
  p = fmaf(p, r, 1.f);
  p = fmaf(p, r, 1.f);
  int32_t half = k >> 1;
  float low = from_bits(static_cast<uint32_t>(half + 127) << 23);
  float high = from_bits(static_cast<uint32_t>(k - half + 127) << 23);
  return one_nan(p * low * high);
}
FOX_HD double exp(double x) { return ::exp(x); }

// k log 2 + log(1 + f), 2/3 <= 1 + f <= 4/3.
FOX_HD float log_of_parts(float k, float f) {
  float p = -0.12883106f;
  p = fmaf(p, f, 0.13985856f);
  p = fmaf(p, f, -0.12186548f);
  p = fmaf(p, f, 0.14005502f);
  p = fmaf(p, f, -0.16680288f);
  p = fmaf(p, f, 0.20010437f);
  p = fmaf(p, f, -0.24999803f);
  p = fmaf(p, f, 0.33333215f);
  p = fmaf(p, f, -0.5f);
  return fmaf(k, 0.69314718f, fmaf(p, f * f, f));
}

FOX_HD float log(float x) {
  bool subnormal = x < 1.17549435e-38f;
  uint32_t bits = to_bits(select(subnormal, x * 8388608.f, x));
  uint32_t k = (bits - 0x3F2AAAABu) & 0xFF800000u;
  float whole = static_cast<float>(static_cast<int32_t>(k)) * 1.1920929e-7f - select(subnormal, 23.f, 0.f);
  float y = log_of_parts(whole, from_bits(bits - k) - 1.f);
  y = select(x == infinity(), x, y);
  y = select(x == 0.f, -infinity(), y);
  return select(x >= 0.f, y, nan_bits());
}
FOX_HD double log(double x) { return ::log(x); }

// 1 + x = 2^k (1 + f), f = x 2^-k + (2^-k - 1), of which only the last addition rounds.
FOX_HD float log1p(float x) {
  float sum = 1.f + x;
  uint32_t k = (to_bits(sum) - 0x3F2AAAABu) & 0xFF800000u;
  float f = from_bits(to_bits(x) - k) + fmaf(0.25f, from_bits(0x40800000u - k), -1.f);
  float whole = static_cast<float>(static_cast<int32_t>(k)) * 1.1920929e-7f;
  float y = log_of_parts(whole, f);
  y = select(x == 0.f, x, select(x == infinity(), x, y));
  y = select(x == -1.f, -infinity(), y);
  return select(x >= -1.f, y, nan_bits());
}
FOX_HD double log1p(double x) { return ::log1p(x); }

// An odd polynomial near 0, 1 - 2 / (e^2|x| + 1) elsewhere.
FOX_HD float tanh(float x) {
  float a = abs(x), square = a * a;
  float p = -0.0061696135f;
  p = fmaf(p, square, 0.021000376f);
  p = fmaf(p, square, -0.053835757f);
  p = fmaf(p, square, 0.13332437f);
  p = fmaf(p, square, -0.33333313f);
  float near = fmaf(p * square, a, a);
  float far = 1.f - 2.f / (exp(a + a) + 1.f);
  return one_nan(with_sign_of(select(a < 0.55f, near, far), x));
}
FOX_HD double tanh(double x) { return ::tanh(x); }

// e / (1 + e) or 1 / (1 + e) with e = e^-|x| keeps the small side right down to subnormal results. The quotient is
// corrected by its remainder, in which `lost` is what 1 + e rounded away.
FOX_HD float sigmoid(float x) {
  float e = exp(-abs(x)), sum = 1.f + e, lost = e - (sum - 1.f);
  float top = select(x < 0.f, e, 1.f), inverse = 1.f / sum, y = top * inverse;
  y = fmaf(fmaf(-y, lost, fmaf(-y, sum, top)), inverse, y);
  return one_nan(y);
}
FOX_HD double sigmoid(double x) { return 1. / (1. + ::exp(-x)); }

// max(x, 0) + log(1 + e^-|x|).
FOX_HD float softplus(float x) {
  return one_nan(select(x > 0.f, x, 0.f) + log1p(exp(-abs(x))));
}
FOX_HD double softplus(double x) { return (x > 0. ? x : 0.) + ::log1p(::exp(-::fabs(x))); }

// sin(quadrant pi / 2 + r), |r| <= pi / 4; cos is the sine one quadrant on.
FOX_HD float sin_of_quadrant(uint32_t quadrant, float r) {
  float square = r * r;
  float s = fmaf(2.8328352e-06f, square, -0.0001985308f);
  s = fmaf(s, square, 0.008333379f);
  s = fmaf(s, square, -0.16666667f);
  s = fmaf(s * square, r, r);
  float c = fmaf(2.4432327e-05f, square, -0.001388731f);
  c = fmaf(c, square, 0.041666646f);
  c = fmaf(c, square, -0.5f);
  c = fmaf(c, square, 1.f);
  float y = select((quadrant & 1u) != 0u, c, s);
  return from_bits(to_bits(y) ^ ((quadrant & 2u) << 30));
}

struct Quadrant {
  uint32_t n;
  float r;
};

// The fraction 2/pi in words of 32 bits, word 1 first: selects, since a table would cost a gather.
FOX_HD uint32_t two_over_pi(uint32_t index) {
  uint32_t w = select(index == 1u, 0xA2F9836Eu, 0u);
  w |= select(index == 2u, 0x4E441529u, 0u);
  w |= select(index == 3u, 0xFC2757D1u, 0u);
  w |= select(index == 4u, 0xF534DDC0u, 0u);
  w |= select(index == 5u, 0xDB629599u, 0u);
  w |= select(index == 6u, 0x3C439041u, 0u);
  return w | select(index == 7u, 0xFE5163ABu, 0u);
}

// |x| = n pi / 2 + r for every float32, after Payne and Hanek: |x| = m 2^e with an integer m, and m times the 96 bits of
// 2/pi that matter at e is |x| 2/pi modulo 4 to 2^-62. Below pi / 4, r is |x| itself.
FOX_HD Quadrant reduce(float x) {
  uint32_t bits = to_bits(x) & 0x7FFFFFFFu;
  uint32_t mantissa = (bits & 0x7FFFFFu) | 0x800000u;
  uint32_t offset = select((bits >> 23) < 126u, 126u, bits >> 23) - 120u;
  uint32_t word = offset >> 5, left = offset & 31u, right = 31u - left;
  uint32_t w0 = two_over_pi(word), w1 = two_over_pi(word + 1u), w2 = two_over_pi(word + 2u), w3 = two_over_pi(word + 3u);
  uint32_t high = (w0 << left) | (w1 >> 1 >> right);
  uint32_t middle = (w1 << left) | (w2 >> 1 >> right);
  uint32_t low = (w2 << left) | (w3 >> 1 >> right);
  uint64_t product = (static_cast<uint64_t>(mantissa * high) << 32) + static_cast<uint64_t>(mantissa) * middle +
                     (static_cast<uint64_t>(mantissa) * low >> 32);
  uint64_t fraction = product << 2;
  double of_high = static_cast<double>(static_cast<int32_t>(fraction >> 32)) * 4294967296.;
  double of_low = static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(fraction) >> 1)) * 2.;
  float r = static_cast<float>((of_high + of_low) * 8.515303950216386e-20);  // pi / 2 * 2^-64
  uint32_t n = static_cast<uint32_t>((product + 0x2000000000000000u) >> 62);
  bool small = bits < 0x3F490FDBu;
  return Quadrant{select(small, 0u, n), select(small, from_bits(bits), r)};
}

FOX_HD float sin(float x) {
  Quadrant q = reduce(x);
  float y = from_bits(to_bits(sin_of_quadrant(q.n, q.r)) ^ (to_bits(x) & 0x80000000u));
  return select(abs(x) < infinity(), y, nan_bits());
}
FOX_HD double sin(double x) { return ::sin(x); }
FOX_HD float cos(float x) {
  Quadrant q = reduce(x);
  return select(abs(x) < infinity(), sin_of_quadrant(q.n + 1u, q.r), nan_bits());
}
FOX_HD double cos(double x) { return ::cos(x); }

// exp(y log x), for x >= 0; the product's rounding makes it about |y log x| ulp. 0^0 and inf^0 are NaN.
FOX_HD float pow(float x, float y) { return exp(y * log(x)); }
FOX_HD double pow(double x, double y) { return ::pow(x, y); }
}  // namespace px
