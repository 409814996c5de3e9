// The digest on the GPU: one launch for all buffers, whose addresses travel as its argument, so that nothing is copied
// and a graph can hold it. Block sums are added as integers.
#include "digest.h"
#include "launch.cuh"
#include <algorithm>
#include <torch/csrc/stable/library.h>

namespace fox {
namespace {
constexpr int threads = 256;
constexpr int64_t least_block_bytes = 1 << 14;

struct Entry {  // a piece from its buffer's first word on
  const uint8_t* from;
  int64_t bytes;
  int32_t first, buffer;  // its first block
};

// A launch takes 4 KiB of arguments cheaply and 32 KiB at most. Blocks look their piece up: a search waits for memory in
// each of its steps.
template <int Pieces, int Blocks> struct Table {
  static constexpr int pieces = Pieces, blocks = Blocks;
  int64_t block_bytes;
  Entry entries[Pieces];
  uint16_t piece_of[Blocks];

  // What a block sums of a piece, which lies `turn` lengths further on.
  __device__ Piece part(int32_t block, int64_t turn) const {
    const Entry& entry = entries[piece_of[block]];
    const int64_t skipped = (block - entry.first) * block_bytes, left = entry.bytes - skipped;
    const int64_t at = skipped + turn * entry.bytes;
    return Piece{entry.from + at, at / 8, left < block_bytes ? left : block_bytes, entry.buffer};
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
  Piece piece = table.part(static_cast<int32_t>(blockIdx.x), turn.now());
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

int64_t blocks_of_piece(const Piece& piece, int64_t block_bytes) { return (piece.bytes + block_bytes - 1) / block_bytes; }

int64_t blocks_of_all(const std::vector<Piece>& pieces, size_t begin, size_t end, int64_t block_bytes) {
  int64_t blocks = 0;
  for (size_t i = begin; i < end; ++i) blocks += blocks_of_piece(pieces[i], block_bytes);
  return blocks;
}

// Sums pieces [begin, end), in blocks that are as small as the table allows.
template <class List>
void launch(const std::vector<Piece>& pieces, size_t begin, size_t end, Turn turn, bool away, unsigned long long* sums,
            cudaStream_t stream) {
  List table;
  table.block_bytes = least_block_bytes;
  while (blocks_of_all(pieces, begin, end, table.block_bytes) > List::blocks) table.block_bytes *= 2;
  int32_t first = 0;
  for (size_t i = begin; i < end; ++i) {
    const Piece& piece = pieces[i];
    const int32_t blocks = static_cast<int32_t>(blocks_of_piece(piece, table.block_bytes));
    table.entries[i - begin] = Entry{piece.from, piece.bytes, first, static_cast<int32_t>(piece.buffer)};
    std::fill_n(table.piece_of + first, blocks, static_cast<uint16_t>(i - begin));
    first += blocks;
  }
  digest_kernel<<<static_cast<unsigned>(first), threads, 0, stream>>>(table, turn, away, sums);
  check_launch("digest_kernel");
}

struct Digest {
  static constexpr int64_t piece_bytes = int64_t(1) << 46;

  static int64_t known(Turn) { return 0; }
  static void sum(const std::vector<Piece>& pieces, Turn turn, bool away, Tensor& sums) {
    torch::stable::accelerator::DeviceGuard guard(sums.get_device_index());
    cudaStream_t stream = current_stream(sums.get_device_index());
    auto* to = static_cast<unsigned long long*>(sums.data_ptr());
    using Few = Table<100, 800>;
    using Many = Table<800, 6000>;
    for (size_t begin = 0, end = 0; begin < pieces.size(); begin = end) {
      end = std::min(pieces.size(), begin + Many::pieces);
      const bool few = end - begin <= Few::pieces && blocks_of_all(pieces, begin, end, least_block_bytes) <= Few::blocks;
      few ? launch<Few>(pieces, begin, end, turn, away, to, stream) : launch<Many>(pieces, begin, end, turn, away, to, stream);
    }
  }
};
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(foxflow, CUDA, m) {
  m.impl("digest", TORCH_BOX(&digest<Digest>));
  m.impl("digest_turn", TORCH_BOX(&digest_turn<Digest>));
}
}  // namespace fox
