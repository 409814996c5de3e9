// The encoder on the GPU: the schedules of the files it includes, else one thread a column or row.
#include "attention.h"
#include "cfc.h"
#include "encoder_blocks.cuh"
#include "encoder_tiles.cuh"
#include "launch.cuh"
#include "layer_norm.h"
#include "mamba_bwd.cuh"
#include "vsn.h"
#include <torch/csrc/stable/library.h>

namespace fox {
namespace {
struct Encoder : Cuda {
  static constexpr int lanes = 1, group = 1;
  static int64_t span(int64_t) { return 1; }
  template <class T> static bool makes_states(const MambaBuffers<T>&) { return false; }
};
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(foxflow, CUDA, m) {
  m.impl("vsn_fwd", TORCH_BOX(&vsn_fwd<Encoder>));
  m.impl("vsn_bwd", TORCH_BOX(&vsn_bwd<Encoder>));
  m.impl("mamba_fwd", TORCH_BOX(&mamba_fwd<Encoder>));
  m.impl("mamba_bwd", TORCH_BOX(&mamba_bwd<Encoder>));
  m.impl("layer_norm_fwd", TORCH_BOX(&layer_norm_fwd<Encoder>));
  m.impl("layer_norm_bwd", TORCH_BOX(&layer_norm_bwd<Encoder>));
  m.impl("attention_fwd", TORCH_BOX(&attention_fwd<Encoder>));
  m.impl("attention_bwd", TORCH_BOX(&attention_bwd<Encoder>));
  m.impl("cfc_fwd", TORCH_BOX(&cfc_fwd<Encoder>));
  m.impl("cfc_bwd", TORCH_BOX(&cfc_bwd<Encoder>));
}
}  // namespace fox
