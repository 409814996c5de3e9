// Rings of which each step writes the next few slots. The step is read off a clock on the device, so that a graph of
// kernels that was captured once writes other slots each time.
#pragma once
#include "check.h"
#include "hd.h"
#include "ranges.h"

namespace fox {
constexpr int64_t rings_at_most = 16;

// The step's place among the `turns` after which a ring begins anew; one of them whatever the clock says.
FOX_HD int64_t turn_of(int64_t step, int64_t turns) {
  return static_cast<int64_t>(static_cast<uint64_t>(step) % static_cast<uint64_t>(turns));
}

struct RingRows {  // the rows of a step, and the ring that takes them
  const uint8_t* rows;
  uint8_t* ring;
  int64_t bytes, turns, first;  // its first unit
};

template <class On> struct RingUnit {  // one unit of the bytes of all rings, laid end to end
  RingRows all[rings_at_most];
  int64_t count;
  const int64_t* step;
  FOX_HD void operator()(int64_t i) const {
    const RingRows& of = all[range_of(all, count, i)];
    int64_t at = (i - of.first) * On::unit, left = of.bytes - at;
    On::copy(of.ring + turn_of(*step, of.turns) * of.bytes + at, of.rows + at, left < On::unit ? left : On::unit);
  }
};

template <class On> void ring_insert(std::vector<Tensor> rings, std::vector<Tensor> rows, Tensor step) {
  int64_t count = static_cast<int64_t>(rings.size()), units = 0;
  FOX_CHECK(1 <= count && count <= rings_at_most && rows.size() == rings.size(), "ring_insert takes 1 to ", rings_at_most,
            " rings and the rows of each");
  RingUnit<On> unit{{}, count, in<int64_t>(step, "step", {})};
  for (int64_t r = 0; r < count; ++r) {
    const Tensor &ring = rings[r], &fresh = rows[r];
    FOX_CHECK(ring.is_contiguous() && fresh.is_contiguous(), "rings and rows must be contiguous");
    FOX_CHECK(ring.device() == step.device() && fresh.device() == step.device(), "all must be on the device of the clock");
    FOX_CHECK(ring.scalar_type() == fresh.scalar_type() && fresh.numel() > 0 && ring.numel() % fresh.numel() == 0 &&
                  ring.numel() > 0, "a ring must have the dtype of its rows, and a multiple of their elements");
    int64_t bytes = fresh.numel() * static_cast<int64_t>(fresh.element_size());
    unit.all[r] = RingRows{static_cast<const uint8_t*>(fresh.data_ptr()), static_cast<uint8_t*>(ring.data_ptr()), bytes,
                           ring.numel() / fresh.numel(), units};
    units += (bytes + On::unit - 1) / On::unit;
  }
  On::rows(step, units, 1, unit);
}
}  // namespace fox
