// The heads on the GPU. The draws of IQN are two launches on one stream: the first reads the states, the second is
// the sole writer of each, and the launch boundary is the barrier between them.
#include "chunks.cuh"
#include "dueling.h"
#include "head_blocks.cuh"
#include "iqn.h"
#include "iqn_loss.h"
#include "label_losses.h"
#include "launch.cuh"
#include "losses.h"
#include "mix.cuh"
#include "policy.h"
#include "targets.h"
#include <torch/csrc/stable/library.h>

namespace fox {
namespace {
constexpr int advance_threads = 256, most_threads = 1024, most_blocks_y = 65535;

__global__ void iqn_tau_cos_features(TauCos row) {
  int64_t b = blockIdx.x, i = blockIdx.y, at = b * row.quantiles + i;
  uint32_t x = row.word(b, i);
  if (threadIdx.x == 0) row.tau[at] = unit(x);
  for (int64_t e = threadIdx.x; e < row.cosines; e += blockDim.x) row.cos[at * row.cosines + e] = TauCos::cosine(x, e);
}

__global__ void iqn_advance_prng_state(int64_t batch, PrngAdvance row) {
  int64_t b = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (b < batch) row(b);
}

struct Heads : Cuda {
  static void advance(const Tensor& like, int64_t batch, PrngAdvance row) {
    if (batch == 0) return;
    torch::stable::accelerator::DeviceGuard guard(like.get_device_index());
    int64_t blocks = (batch + advance_threads - 1) / advance_threads;
    FOX_CHECK(blocks <= INT32_MAX, "too many rows for one launch: ", batch);
    iqn_advance_prng_state<<<static_cast<unsigned>(blocks), advance_threads, 0,
                             current_stream(like.get_device_index())>>>(batch, row);
    check_launch("iqn_advance_prng_state");
  }
  static void tau_cos(const Tensor& like, int64_t batch, TauCos row) {
    if (batch == 0) return;
    torch::stable::accelerator::DeviceGuard guard(like.get_device_index());
    FOX_CHECK(batch <= INT32_MAX && row.quantiles <= most_blocks_y, "too many rows or quantiles for one launch: ",
              batch, ", ", row.quantiles);
    dim3 grid(static_cast<unsigned>(batch), static_cast<unsigned>(row.quantiles));
    unsigned threads = row.cosines < most_threads ? static_cast<unsigned>(row.cosines) : most_threads;
    iqn_tau_cos_features<<<grid, threads, 0, current_stream(like.get_device_index())>>>(row);
    check_launch("iqn_tau_cos_features");
  }
};
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(foxflow, CUDA, m) {
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
