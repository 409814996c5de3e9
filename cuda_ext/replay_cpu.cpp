// Prioritised replay on CPU threads: tree levels one after another, the nodes of a level side by side.
#include "cpu.h"
#include "labels.h"
#include "per.h"
#include <torch/csrc/stable/library.h>

#include <cstring>

namespace fox {
namespace {
struct PerLevel {
  PerNode node;
  int64_t first;
  FOX_HD void operator()(int64_t i) const { node(first + i); }
};

struct PerDrawRow {
  PerDraw draw;
  FOX_HD void operator()(int64_t b) const { draw.draw(b); }
};

struct Replay : Cpu {
  static constexpr int64_t unit = 1 << 16;

  FOX_HD static void copy(uint8_t* to, const uint8_t* from, int64_t bytes) { std::memcpy(to, from, bytes); }
  static void rebuild(const Tensor& like, PerNode node) {
    node.tree[0] = 0.f;
    for (int64_t first = node.slots / 2; first >= 1; first /= 2) rows(like, first, 8192, PerLevel{node, first});
  }
  static void draw(const Tensor& like, PerDraw draw) {
    rows(like, draw.batch, 128, PerDrawRow{draw});
    float largest = 0.f;
    for (int64_t b = 0; b < draw.batch; ++b) largest = PerDraw::larger(largest, draw.weight[b]);
    for (int64_t b = 0; b < draw.batch; ++b) draw.divide(b, largest);
  }
};
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(foxflow, CPU, m) {
  m.impl("ring_insert", TORCH_BOX(&ring_insert<Replay>));
  m.impl("per_insert", TORCH_BOX(&per_insert<Replay>));
  m.impl("per_update", TORCH_BOX(&per_update<Replay>));
  m.impl("per_rebuild", TORCH_BOX(&per_rebuild<Replay>));
  m.impl("per_sample", TORCH_BOX(&per_sample<Replay>));
  m.impl("assign_labels", TORCH_BOX(&assign_labels<Replay>));
}
}  // namespace fox
