// Ranges laid end to end, e.g. the blocks of several tensors in one launch.
#pragma once
#include "hd.h"

namespace fox {
// Which of `count` ranges holds i; each knows its `first`.
template <class Range> FOX_HD int64_t range_of(const Range* all, int64_t count, int64_t i) {
  int64_t low = 0;
  while (count - low > 1) {
    int64_t middle = (low + count) / 2;
    (all[middle].first <= i ? low : count) = middle;
  }
  return low;
}
}  // namespace fox
