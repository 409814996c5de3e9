// Norms, Adam, target copies, mean losses and controllers on CPU threads.
#include "controllers.h"
#include "learn.h"
#include "cpu.h"
#include <torch/csrc/stable/library.h>

namespace fox {
STABLE_TORCH_LIBRARY_IMPL(foxflow, CPU, m) {
  m.impl("group_norm", TORCH_BOX(&group_norm<Cpu>));
  m.impl("adam", TORCH_BOX(&adam<Cpu>));
  m.impl("polyak", TORCH_BOX(&polyak<Cpu>));
  m.impl("mean_loss", TORCH_BOX(&mean_loss<Cpu>));
  m.impl("controllers", TORCH_BOX(&controllers<Cpu>));
}
}  // namespace fox
