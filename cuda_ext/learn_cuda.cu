// Norms, Adam, target copies, mean losses and controllers on the GPU.
#include "chunks.cuh"
#include "controllers.h"
#include "learn.h"
#include "launch.cuh"
#include "learn_blocks.cuh"
#include <torch/csrc/stable/library.h>

namespace fox {
namespace {
struct Learn : Cuda {
  static constexpr int64_t span = 1;  // a thread a weight
};
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(foxflow, CUDA, m) {
  m.impl("group_norm", TORCH_BOX(&group_norm<Learn>));
  m.impl("adam", TORCH_BOX(&adam<Learn>));
  m.impl("polyak", TORCH_BOX(&polyak<Learn>));
  m.impl("mean_loss", TORCH_BOX(&mean_loss<Learn>));
  m.impl("controllers", TORCH_BOX(&controllers<Learn>));
}
}  // namespace fox
