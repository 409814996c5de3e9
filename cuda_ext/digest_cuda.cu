// The digest on the GPU: one launch for all buffers, a block a piece, block sums added as integers.
#include "digest.h"
#include "launch.cuh"
#include <torch/csrc/stable/library.h>

namespace fox {
namespace {
constexpr int threads = 256;

// Words [begin, words) of a piece by all threads; the last one may be short.
__device__ void add_words(const Piece& piece, int64_t begin, int64_t words, Lanes& lanes) {
  bool aligned = reinterpret_cast<uintptr_t>(piece.from) % 8 == 0;
  for (int64_t w = begin + threadIdx.x; w < words; w += threads) {
    const uint8_t* from = piece.from + 8 * w;
    bool whole = aligned && 8 * w + 8 <= piece.bytes;
    lanes.add(whole ? *reinterpret_cast<const uint64_t*>(from) : word_at(from, piece.bytes - 8 * w), piece.word + w);
  }
}

__global__ void __launch_bounds__(threads) digest_kernel(const Piece* pieces, unsigned long long* sums) {
  Piece piece = pieces[blockIdx.x];
  Lanes lanes{0, 0};
  int64_t paired = reinterpret_cast<uintptr_t>(piece.from) % 16 == 0 ? piece.bytes / 16 : 0;
  const ulonglong2* pairs = reinterpret_cast<const ulonglong2*>(piece.from);
#pragma unroll 4
  for (int64_t w = threadIdx.x; w < paired; w += threads) {
    ulonglong2 pair = __ldcs(pairs + w);
    lanes.add(pair.x, piece.word + 2 * w);
    lanes.add(pair.y, piece.word + 2 * w + 1);
  }
  add_words(piece, 2 * paired, (piece.bytes + 7) / 8, lanes);
  for (int offset = 16; offset; offset >>= 1) {
    lanes.zero += __shfl_down_sync(~0u, lanes.zero, offset);
    lanes.one += __shfl_down_sync(~0u, lanes.one, offset);
  }
  __shared__ Lanes of_warp[threads / 32];
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = lanes;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < threads / 32; ++warp) {
    lanes.zero += of_warp[warp].zero;
    lanes.one += of_warp[warp].one;
  }
  atomicAdd(sums + 2 * piece.buffer, lanes.zero);     // integer
  atomicAdd(sums + 2 * piece.buffer + 1, lanes.one);  // integer
}

struct Digest {
  static constexpr int64_t piece_bytes = 1 << 16;

  // The table of pieces goes over by torch's own copy, which keeps the pinned memory until the stream has read it.
  static void sum(const std::vector<Piece>& pieces, Tensor& sums) {
    torch::stable::accelerator::DeviceGuard guard(sums.get_device_index());
    cudaStream_t stream = current_stream(sums.get_device_index());
    FOX_CHECK(cudaMemsetAsync(sums.data_ptr(), 0, sums.numel() * sizeof(int64_t), stream) == cudaSuccess,
              "the digest's sums could not be zeroed");
    if (pieces.empty()) return;
    FOX_CHECK(pieces.size() <= INT32_MAX, "too many pieces for one launch: ", pieces.size());
    std::vector<int64_t> shape{static_cast<int64_t>(pieces.size() * sizeof(Piece) / sizeof(int64_t))};
    Tensor table = torch::stable::empty(shape, ScalarType::Long, std::nullopt, std::nullopt, true);
    std::memcpy(table.data_ptr(), pieces.data(), pieces.size() * sizeof(Piece));
    Tensor there = make<int64_t>(sums, {shape[0]});
    torch::stable::copy_(there, table, true);
    digest_kernel<<<static_cast<unsigned>(pieces.size()), threads, 0, stream>>>(
        static_cast<const Piece*>(there.data_ptr()), static_cast<unsigned long long*>(sums.data_ptr()));
    check_launch("digest_kernel");
  }
};
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(foxflow, CUDA, m) {
  m.impl("digest", TORCH_BOX(&digest<Digest>));
  m.impl("digest_range", TORCH_BOX(&digest_range<Digest>));
}
}  // namespace fox
