// Per-row xorshift32 streams and the draws made from them.
#pragma once
#include "hd.h"

#include <cstdint>

namespace fox {
// Marsaglia's xorshift32; 0 is its only fixed point, so that no state may be 0.
FOX_HD uint32_t xorshift32(uint32_t x) {
  x ^= x << 13;
  x ^= x >> 17;
  x ^= x << 5;
  return x;
}

// Murmur3's finaliser: a bijection that scatters neighbouring seeds.
FOX_HD uint32_t fmix32(uint32_t x) {
  x ^= x >> 16;
  x *= 0x85EBCA6Bu;
  x ^= x >> 13;
  x *= 0xC2B2AE35u;
  x ^= x >> 16;
  return x;
}

// 2 (x >> 9) + 1: odd, below 2^24.
FOX_HD uint32_t odd24(uint32_t x) { return 2u * (x >> 9) + 1u; }

// ((x >> 9) + 1/2) 2^-23, exactly; strictly inside (0, 1).
FOX_HD float unit(uint32_t x) { return static_cast<float>(static_cast<int32_t>(odd24(x))) * 0x1p-24f; }
}  // namespace fox
