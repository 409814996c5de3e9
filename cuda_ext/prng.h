// The generator behind acting and drawing: one 32-bit state a row, never 0.
#pragma once
#include <cstdint>
#include "hd.h"

namespace fox {
FOX_HD uint32_t xorshift32(uint32_t x) { x ^= x << 13; x ^= x >> 17; x ^= x << 5; return x; }
}  // namespace fox
