// The encoder on CPU threads: vectors run over columns, and eight rows add side by side.
#include "attention.h"
#include "cfc.h"
#include "cpu.h"
#include "layer_norm.h"
#include "mamba_cpu.h"
#include "vsn.h"
#include <torch/csrc/stable/library.h>

namespace fox {
namespace {
struct Encoder : Cpu {
  static constexpr int lanes = widest, group = 8;
  static int64_t span(int64_t size) { return size; }

  template <class T> static bool makes_states(const MambaBuffers<T>& of) {
    return MambaWideScanBwd::fits<T>(of.sizes);
  }

  using Cpu::rows;
  template <class T> static void rows(const Tensor& like, int64_t n, int64_t, const MambaStep<T>& row) {
    constexpr int64_t block = MambaStepRows<T>::block;
    Cpu::rows(like, (n + block - 1) / block, 4, MambaStepRows<T>{row, n});
  }
  template <class T> static void rows(const Tensor& like, int64_t n, int64_t grain, const MambaScan<T, lanes>& row) {
    if constexpr (sizeof(T) == sizeof(float))
      if (MambaWide<lanes>::fits(row.sizes)) return Cpu::rows(like, row.sizes.batch * row.sizes.heads, 16, MambaWideScan{row});
    Cpu::rows(like, n, grain, row);
  }
  template <class T> static void rows(const Tensor& like, int64_t n, int64_t grain, const MambaScanBwd<T, lanes>& row) {
    if constexpr (sizeof(T) == sizeof(float))
      if (makes_states(row.of)) return Cpu::rows(like, row.of.sizes.batch, grain, MambaWideScanBwd{row.of});
    Cpu::rows(like, n, grain, row);
  }
  template <class T> static void rows(const Tensor& like, int64_t n, int64_t grain, const MambaJoin<T, group>& row) {
    if (makes_states(row.of)) return;
    Cpu::rows(like, n, grain, row);
  }
};
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(foxflow, CPU, m) {
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
