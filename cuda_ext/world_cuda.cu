// The world on the GPU: registrations; the arithmetic is in book.h, features.h, env.h and labels.h.
#include "env.h"
#include "features.h"
#include "labels.h"
#include "launch.cuh"
#include <torch/csrc/stable/library.h>

namespace fox {
STABLE_TORCH_LIBRARY_IMPL(foxflow, CUDA, m) {
  m.impl("book_gather", TORCH_BOX(&book_gather<Cuda>));
  m.impl("features", TORCH_BOX(&features<Cuda>));
  m.impl("window_push", TORCH_BOX(&window_push<Cuda>));
  m.impl("env_step", TORCH_BOX(&env_step<Cuda>));
  m.impl("reward", TORCH_BOX(&reward<Cuda>));
  m.impl("env_wrap", TORCH_BOX(&env_wrap<Cuda>));
  m.impl("carry_update", TORCH_BOX(&carry_update<Cuda>));
  m.impl("frd_labels", TORCH_BOX(&frd_labels<Cuda>));
}
}  // namespace fox
