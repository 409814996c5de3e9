// The world on CPU threads: registrations; the arithmetic is in book.h, features.h, env.h and labels.h.
#include "cpu.h"
#include "env.h"
#include "features.h"
#include "labels.h"
#include <torch/csrc/stable/library.h>

namespace fox {
STABLE_TORCH_LIBRARY_IMPL(foxflow, CPU, m) {
  m.impl("book_gather", TORCH_BOX(&book_gather<Cpu>));
  m.impl("features", TORCH_BOX(&features<Cpu>));
  m.impl("window_push", TORCH_BOX(&window_push<Cpu>));
  m.impl("env_step", TORCH_BOX(&env_step<Cpu>));
  m.impl("reward", TORCH_BOX(&reward<Cpu>));
  m.impl("env_wrap", TORCH_BOX(&env_wrap<Cpu>));
  m.impl("carry_update", TORCH_BOX(&carry_update<Cpu>));
  m.impl("frd_labels", TORCH_BOX(&frd_labels<Cpu>));
}
}  // namespace fox
