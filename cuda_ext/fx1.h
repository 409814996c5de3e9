// Digest fx1: one term of each lane's sum, the same for host and device. The whole definition is in foxflow/digest.py.
#pragma once
#include <cstdint>

#include "hd.h"

namespace fox {

constexpr uint64_t FX1_G0 = 0x9E3779B97F4A7C15ull, FX1_G1 = 0xD1B54A32D192ED03ull;
constexpr uint64_t FX1_S0 = 0x243F6A8885A308D3ull, FX1_S1 = 0x13198A2E03707344ull;

// The key of word i (counted from 0 over the whole buffer) in the lane of seed S and step G.
FOX_HD constexpr uint64_t fx1_key(uint64_t i, uint64_t S, uint64_t G) { return S + (i + 1) * G; }

// term(w, key), summed modulo 2^64 over all words. With one half of x fixed it is injective in the other half.
FOX_HD constexpr uint64_t fx1_term(uint64_t word, uint64_t key) {
  uint64_t x = word ^ key;
  uint64_t t = (x & 0xffffffffull) * (x >> 32) + ((x << 32) | (x >> 32));
  return t ^ (t >> 29);
}

}  // namespace fox
