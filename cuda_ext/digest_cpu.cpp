// The digest on CPU threads: pieces gathered into parcels of like size, a parcel to a thread at a time.
#include "digest.h"
#include "cpu.h"
#include "fx1_cpu.h"
#include <torch/csrc/stable/library.h>

namespace fox {
namespace {
struct SumParcel {
  const Piece* pieces;
  const int64_t* parcels;  // the first piece of each parcel, and the end of the last
  Lanes* sums;             // one a piece

  void operator()(int64_t parcel) const {
    for (int64_t i = parcels[parcel]; i < parcels[parcel + 1]; ++i) {
      const Piece& piece = pieces[i];
      uint64_t lanes[2] = {0, 0};
      fx1_add(piece.from, static_cast<uint64_t>(piece.bytes), static_cast<uint64_t>(piece.word), lanes);
      sums[i] = Lanes{lanes[0], lanes[1]};
    }
  }
};

struct Digest : Cpu {
  static constexpr int64_t piece_bytes = 1 << 18;

  static int64_t known(Turn turn) { return turn.now(); }
  static void sum(const std::vector<Piece>& pieces, Turn, bool away, Tensor& sums) {
    std::vector<int64_t> parcels{0};
    int64_t filled = 0, count = static_cast<int64_t>(pieces.size());
    for (int64_t i = 0; i < count; ++i) {
      filled += pieces[i].bytes;
      if (filled < piece_bytes && i + 1 < count) continue;
      parcels.push_back(i + 1);
      filled = 0;
    }
    std::vector<Lanes> partial(pieces.size());
    rows(sums, static_cast<int64_t>(parcels.size()) - 1, 1, SumParcel{pieces.data(), parcels.data(), partial.data()});
    uint64_t* total = static_cast<uint64_t*>(sums.data_ptr());
    for (int64_t i = 0; i < count; ++i) {
      total[2 * pieces[i].buffer] += partial[i].signed_as(away).zero;
      total[2 * pieces[i].buffer + 1] += partial[i].signed_as(away).one;
    }
  }
};
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(foxflow, CPU, m) {
  m.impl("digest", TORCH_BOX(&digest<Digest>));
  m.impl("digest_turn", TORCH_BOX(&digest_turn<Digest>));
}
}  // namespace fox
