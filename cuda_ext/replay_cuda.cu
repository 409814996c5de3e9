// Prioritised replay on the GPU. One block rebuilds and one block draws: __syncthreads is the barrier that the levels of
// a sum tree and a maximum over the batch need.
#include "labels.h"
#include "launch.cuh"
#include "per.h"
#include <torch/csrc/stable/library.h>

namespace fox {
constexpr int update_threads = 256, lanes = 32;

// A warp a row: its lanes look through the rows before side by side.
static __global__ void __launch_bounds__(update_threads) per_update_kernel(PerUpdateRow row) {
  const int64_t b = (blockIdx.x * static_cast<int64_t>(update_threads) + threadIdx.x) / lanes;
  const int lane = threadIdx.x % lanes;
  if (b > row.batch) return;
  if (b < row.batch) {
    const bool found = __any_sync(~0u, row.drawn_before(b, lane, lanes));
    if (lane == 0 && !found) row.write(b);
    return;
  }
  float largest = row.largest_of(*row.max_prio, lane, lanes);
  for (int half = lanes / 2; half; half /= 2) largest = PerUpdateRow::larger(largest, __shfl_down_sync(~0u, largest, half));
  if (lane == 0) row.keep(largest);
}

inline bool staged(const Tensor& like, int64_t rows, const PerUpdateRow& row) {
  launch("per_update_kernel", per_update_kernel, {blocks_of(rows * lanes, update_threads), update_threads}, like, row);
  return true;
}

namespace {
constexpr int block = 1024;

__global__ void __launch_bounds__(block) per_rebuild_kernel(PerNode node) {
  if (threadIdx.x == 0) node.tree[0] = 0.f;
  for (int64_t first = node.slots / 2; first >= 1; first /= 2) {
    for (int64_t i = threadIdx.x; i < first; i += block) node(first + i);
    __syncthreads();
  }
}

__global__ void __launch_bounds__(block) per_draw_kernel(PerDraw draw) {
  __shared__ float largest[block];
  float mine = 0.f;
  for (int64_t b = threadIdx.x; b < draw.batch; b += block) mine = PerDraw::larger(mine, draw.draw(b));
  largest[threadIdx.x] = mine;
  __syncthreads();
  for (int half = block / 2; half >= 1; half /= 2) {
    if (threadIdx.x < half) largest[threadIdx.x] = PerDraw::larger(largest[threadIdx.x], largest[threadIdx.x + half]);
    __syncthreads();
  }
  for (int64_t b = threadIdx.x; b < draw.batch; b += block) draw.divide(b, largest[0]);
}

struct Replay : Cuda {
  static constexpr int64_t unit = sizeof(uint4);

  FOX_HD static void copy(uint8_t* to, const uint8_t* from, int64_t bytes) {
    if (bytes == unit && (reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % unit == 0)
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
    else
      for (int64_t b = 0; b < bytes; ++b) to[b] = from[b];
  }
  static void rebuild(const Tensor& like, PerNode node) {
    torch::stable::accelerator::DeviceGuard guard(like.get_device_index());
    per_rebuild_kernel<<<1, block, 0, current_stream(like.get_device_index())>>>(node);
    check_launch("per_rebuild_kernel");
  }
  static void draw(const Tensor& like, PerDraw draw) {
    torch::stable::accelerator::DeviceGuard guard(like.get_device_index());
    per_draw_kernel<<<1, block, 0, current_stream(like.get_device_index())>>>(draw);
    check_launch("per_draw_kernel");
  }
};
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(foxflow, CUDA, m) {
  m.impl("ring_insert", TORCH_BOX(&ring_insert<Replay>));
  m.impl("per_insert", TORCH_BOX(&per_insert<Replay>));
  m.impl("per_update", TORCH_BOX(&per_update<Replay>));
  m.impl("per_rebuild", TORCH_BOX(&per_rebuild<Replay>));
  m.impl("per_sample", TORCH_BOX(&per_sample<Replay>));
  m.impl("assign_labels", TORCH_BOX(&assign_labels<Replay>));
}
}  // namespace fox
