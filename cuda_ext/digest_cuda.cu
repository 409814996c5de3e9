// The digest on the GPU: one launch for all buffers, whose addresses travel as its argument, so that nothing is copied
// and a graph can hold it. A block sums 16 KiB, or 64 KiB of much; block sums are added as integers.
#include "digest.h"
#include "launch.cuh"
#include "ranges.h"
#include <algorithm>
#include <torch/csrc/stable/library.h>

namespace fox {
namespace {
constexpr int threads = 256;
constexpr int64_t block_bytes_of_little = 1 << 14, block_bytes_of_much = 1 << 16, much = int64_t(1) << 25;

struct Entry {
  Piece piece;
  int64_t first;  // its first block
};

// A launch takes 4 KiB of arguments cheaply and 32 KiB at most.
template <int Most> struct Table {
  static constexpr int most = Most;
  int32_t count, block_bytes;
  Entry entries[Most];

  // What a block sums of a piece, which lies `turn` lengths further on.
  __device__ Piece part(int64_t block, int64_t turn) const {
    const Entry& entry = entries[range_of(entries, count, block)];
    Piece piece = entry.piece;
    int64_t skipped = (block - entry.first) * block_bytes, left = piece.bytes - skipped;
    skipped += turn * piece.bytes;
    return Piece{piece.from + skipped, piece.word + skipped / 8, left < block_bytes ? left : block_bytes, piece.buffer};
  }
};

// Words [begin, words) of a piece by all threads; the last one may be short.
__device__ void add_words(const Piece& piece, int64_t begin, int64_t words, Lanes& lanes) {
  bool aligned = reinterpret_cast<uintptr_t>(piece.from) % 8 == 0;
  for (int64_t w = begin + threadIdx.x; w < words; w += threads) {
    const uint8_t* from = piece.from + 8 * w;
    bool whole = aligned && 8 * w + 8 <= piece.bytes;
    lanes.add(whole ? *reinterpret_cast<const uint64_t*>(from) : word_at(from, piece.bytes - 8 * w), piece.word + w);
  }
}

template <class List>
__global__ void __launch_bounds__(threads) digest_kernel(const __grid_constant__ List table, Turn turn, bool away,
                                                         unsigned long long* sums) {
  Piece piece = table.part(blockIdx.x, turn.now());
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
  lanes = lanes.signed_as(away);
  atomicAdd(sums + 2 * piece.buffer, lanes.zero);     // integer
  atomicAdd(sums + 2 * piece.buffer + 1, lanes.one);  // integer
}

// Sums pieces from `begin` on, as many as a table holds; returns the first that is left.
template <class List>
size_t launch(const std::vector<Piece>& pieces, size_t begin, Turn turn, bool away, unsigned long long* sums,
              cudaStream_t stream) {
  List table;
  size_t end = std::min(pieces.size(), begin + List::most);
  int64_t bytes = 0, blocks = 0;
  for (size_t i = begin; i < end; ++i) bytes += pieces[i].bytes;
  table.block_bytes = static_cast<int32_t>(bytes < much ? block_bytes_of_little : block_bytes_of_much);
  table.count = 0;
  for (; begin < end; ++begin) {
    table.entries[table.count++] = Entry{pieces[begin], blocks};
    blocks += (pieces[begin].bytes + table.block_bytes - 1) / table.block_bytes;
  }
  FOX_CHECK(blocks <= INT32_MAX, "too many bytes for one launch");
  digest_kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(table, turn, away, sums);
  check_launch("digest_kernel");
  return begin;
}

struct Digest {
  static constexpr int64_t piece_bytes = int64_t(1) << 46;

  static int64_t known(Turn) { return 0; }
  static void sum(const std::vector<Piece>& pieces, Turn turn, bool away, Tensor& sums) {
    torch::stable::accelerator::DeviceGuard guard(sums.get_device_index());
    cudaStream_t stream = current_stream(sums.get_device_index());
    auto* to = static_cast<unsigned long long*>(sums.data_ptr());
    using Few = Table<100>;
    using Many = Table<800>;
    for (size_t begin = 0; begin < pieces.size();)
      begin = pieces.size() - begin <= Few::most ? launch<Few>(pieces, begin, turn, away, to, stream)
                                                 : launch<Many>(pieces, begin, turn, away, to, stream);
  }
};
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(foxflow, CUDA, m) {
  m.impl("digest", TORCH_BOX(&digest<Digest>));
  m.impl("digest_turn", TORCH_BOX(&digest_turn<Digest>));
}
}  // namespace fox
