// Norms, Adam, target copies, mean losses and controllers on the GPU.
#include "controllers.h"
#include "learn.h"
#include "launch.cuh"
#include <torch/csrc/stable/library.h>

namespace fox {
STABLE_TORCH_LIBRARY_IMPL(foxflow, CUDA, m) {
  m.impl("group_norm", TORCH_BOX(&group_norm<Cuda>));
  m.impl("adam", TORCH_BOX(&adam<Cuda>));
  m.impl("polyak", TORCH_BOX(&polyak<Cuda>));
  m.impl("mean_loss", TORCH_BOX(&mean_loss<Cuda>));
  m.impl("controllers", TORCH_BOX(&controllers<Cuda>));
}
}  // namespace fox
