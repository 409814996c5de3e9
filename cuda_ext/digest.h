// Lane sums of fx1 over many buffers at once: the list is cut in pieces, whose integer sums may be added in any order.
// They are added to what `sums` holds, or taken `away` from it.
#pragma once
#include "check.h"
#include "fx1.h"
#include "ring.h"

namespace fox {
// Bytes of one buffer from word `word` on, with no cut inside a word but at the buffer's end.
struct Piece {
  const uint8_t* from;
  int64_t word, bytes, buffer;
};

// Which of `turns` equal parts of every buffer is summed; without a clock the whole, as one part.
struct Turn {
  const int64_t* step;
  int64_t turns;
  FOX_HD int64_t now() const { return step ? turn_of(*step, turns) : 0; }
};

struct Lanes {
  uint64_t zero, one;
  FOX_HD void add(uint64_t word, uint64_t i) {
    zero += fx1_term(word, fx1_key(i, FX1_S0, FX1_G0));
    one += fx1_term(word, fx1_key(i, FX1_S1, FX1_G1));
  }
  FOX_HD Lanes signed_as(bool away) const { return away ? Lanes{0 - zero, 0 - one} : *this; }
};

// The word at `from`, of which `bytes` (at most 8) belong to the buffer; the rest counts as zeros.
FOX_HD uint64_t word_at(const uint8_t* from, int64_t bytes) {
  uint64_t word = 0;
  for (int64_t b = 0; b < bytes && b < 8; ++b) word |= static_cast<uint64_t>(from[b]) << (8 * b);
  return word;
}

inline void cut(std::vector<Piece>& pieces, const uint8_t* data, int64_t begin, int64_t end, int64_t piece_bytes,
                int64_t buffer) {
  for (int64_t at = begin; at < end; at += piece_bytes)
    pieces.push_back(Piece{data + at, at / 8, end - at < piece_bytes ? end - at : piece_bytes, buffer});
}

inline const uint8_t* bytes_of(const Tensor& buffer, const Tensor& like, int64_t& bytes) {
  FOX_CHECK(buffer.is_contiguous(), "a buffer must be contiguous");
  FOX_CHECK(buffer.device() == like.device(), "all buffers must be on one device");
  bytes = buffer.numel() * static_cast<int64_t>(buffer.element_size());
  return static_cast<const uint8_t*>(buffer.data_ptr());
}

template <class On> void digest(Tensor sums, std::vector<Tensor> buffers) {
  inout<int64_t>(sums, "sums", {static_cast<int64_t>(buffers.size()), 2});
  std::vector<Piece> pieces;
  for (size_t i = 0; i < buffers.size(); ++i) {
    int64_t bytes = 0;
    const uint8_t* data = bytes_of(buffers[i], sums, bytes);
    cut(pieces, data, 0, bytes, On::piece_bytes, static_cast<int64_t>(i));
  }
  On::sum(pieces, Turn{nullptr, 1}, false, sums);
}

// Of each buffer the part that the step writes, at its own position. On a GPU the clock is not known yet: there the
// pieces are those of the first part, and the kernel moves them on.
template <class On> void digest_turn(Tensor sums, std::vector<Tensor> buffers, Tensor step, int64_t turns, bool away) {
  FOX_CHECK(turns > 0, "a ring has one turn at least");
  inout<int64_t>(sums, "sums", {static_cast<int64_t>(buffers.size()), 2});
  Turn turn{in<int64_t>(step, "step", {}), turns};
  std::vector<Piece> pieces;
  for (size_t i = 0; i < buffers.size(); ++i) {
    int64_t bytes = 0;
    const uint8_t* data = bytes_of(buffers[i], step, bytes);
    FOX_CHECK(turns == 1 || bytes % (8 * turns) == 0, "a turn's part must be a multiple of 8 bytes");
    int64_t part = bytes / turns, begin = On::known(turn) * part;
    cut(pieces, data, begin, begin + part, On::piece_bytes, static_cast<int64_t>(i));
  }
  On::sum(pieces, turn, away, sums);
}
}  // namespace fox
