// The heads on CPU threads.
#include "cpu.h"
#include "dueling.h"
#include "iqn.h"
#include "iqn_loss.h"
#include "label_losses.h"
#include "losses.h"
#include "policy.h"
#include "targets.h"
#include <torch/csrc/stable/library.h>

namespace fox {
namespace {
struct Heads : Cpu {
  static void advance(const Tensor& like, int64_t batch, PrngAdvance row) {
    rows(like, batch, grain_of(row.times), row);
  }
  static void tau_cos(const Tensor& like, int64_t batch, TauCos row) {
    rows(like, batch * row.quantiles, grain_of(row.cosines), row);
  }
};
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(foxflow, CPU, m) {
  m.impl("sample_action", TORCH_BOX(&sample_action<Heads>));
  m.impl("greedy_action", TORCH_BOX(&greedy_action<Heads>));
  m.impl("prng_advance", TORCH_BOX(&prng_advance<Heads>));
  m.impl("iqn_tau_cos", TORCH_BOX(&iqn_tau_cos<Heads>));
  m.impl("iqn_mix_fwd", TORCH_BOX(&iqn_mix_fwd<Heads>));
  m.impl("iqn_mix_bwd", TORCH_BOX(&iqn_mix_bwd<Heads>));
  m.impl("dueling_compose", TORCH_BOX(&dueling_compose<Heads>));
  m.impl("dueling_split", TORCH_BOX(&dueling_split<Heads>));
  m.impl("c51_target", TORCH_BOX(&c51_target<Heads>));
  m.impl("v_target", TORCH_BOX(&v_target<Heads>));
  m.impl("iqn_target", TORCH_BOX(&iqn_target<Heads>));
  m.impl("dueling_target", TORCH_BOX(&dueling_target<Heads>));
  m.impl("c51_loss", TORCH_BOX(&c51_loss<Heads>));
  m.impl("pi_loss", TORCH_BOX(&pi_loss<Heads>));
  m.impl("v_loss", TORCH_BOX(&v_loss<Heads>));
  m.impl("iqn_loss", TORCH_BOX(&iqn_loss<Heads>));
  m.impl("dueling_loss", TORCH_BOX(&dueling_loss<Heads>));
  m.impl("frd_loss", TORCH_BOX(&frd_loss<Heads>));
  m.impl("outcome_loss", TORCH_BOX(&outcome_loss<Heads>));
}
}  // namespace fox
