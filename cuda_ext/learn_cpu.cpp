// Norms, Adam, target copies, mean losses and controllers on CPU threads.
#include "controllers.h"
#include "learn.h"
#include "cpu.h"
#include <torch/csrc/stable/library.h>

namespace fox {
namespace {
struct Learn : Cpu {
  static constexpr int64_t span = 1024;  // a span's loop vectorises
};
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(foxflow, CPU, m) {
  m.impl("group_norm", TORCH_BOX(&group_norm<Learn>));
  m.impl("adam", TORCH_BOX(&adam<Learn>));
  m.impl("polyak", TORCH_BOX(&polyak<Learn>));
  m.impl("mean_loss", TORCH_BOX(&mean_loss<Learn>));
  m.impl("controllers", TORCH_BOX(&controllers<Learn>));
}
}  // namespace fox
