// Lane sums of fx1 over many buffers at once: the list is cut in pieces, whose integer sums may be added in any order.
#pragma once
#include "check.h"
#include "fx1.h"

#include <cstring>

namespace fox {
// Bytes of one buffer from word `word` on, with no cut inside a word but at the buffer's end.
struct Piece {
  const uint8_t* from;
  int64_t word, bytes, buffer;
};

struct Lanes {
  uint64_t zero, one;
  FOX_HD void add(uint64_t word, uint64_t i) {
    zero += fx1_term(word, fx1_key(i, FX1_S0, FX1_G0));
    one += fx1_term(word, fx1_key(i, FX1_S1, FX1_G1));
  }
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

template <class On> Tensor digest(std::vector<Tensor> buffers) {
  FOX_CHECK(!buffers.empty(), "digest takes at least one buffer");
  std::vector<Piece> pieces;
  for (size_t i = 0; i < buffers.size(); ++i) {
    int64_t bytes = 0;
    const uint8_t* data = bytes_of(buffers[i], buffers[0], bytes);
    cut(pieces, data, 0, bytes, On::piece_bytes, static_cast<int64_t>(i));
  }
  Tensor sums = make<int64_t>(buffers[0], {static_cast<int64_t>(buffers.size()), 2});
  On::sum(pieces, sums);
  return sums;
}

// Of each buffer the bytes [begin, end) at their own positions.
template <class On> Tensor digest_ranges(std::vector<Tensor> buffers, std::vector<int64_t> begins, std::vector<int64_t> ends) {
  FOX_CHECK(!buffers.empty() && begins.size() == buffers.size() && ends.size() == buffers.size(),
            "digest_ranges takes a begin and an end for each of at least one buffer");
  std::vector<Piece> pieces;
  for (size_t i = 0; i < buffers.size(); ++i) {
    int64_t bytes = 0, begin = begins[i], end = ends[i];
    const uint8_t* data = bytes_of(buffers[i], buffers[0], bytes);
    FOX_CHECK(0 <= begin && begin <= end && end <= bytes, "a range must lie inside its buffer of ", bytes, " bytes");
    FOX_CHECK(begin % 8 == 0 && (end % 8 == 0 || end == bytes), "a range must begin and end at multiples of 8 bytes");
    cut(pieces, data, begin, end, On::piece_bytes, static_cast<int64_t>(i));
  }
  Tensor sums = make<int64_t>(buffers[0], {static_cast<int64_t>(buffers.size()), 2});
  On::sum(pieces, sums);
  return sums;
}
}  // namespace fox
