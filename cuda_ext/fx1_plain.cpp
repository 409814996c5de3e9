// Digest fx1 for readers of records: plain C for ctypes, without torch.
#include <cstdint>
#include <cstring>

#include "fx1.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FOX_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOX_CLONES
#endif

using namespace fox;

namespace {

constexpr int WIDTH = 8;  // words a block: one AVX-512 register, two of AVX2

// Adds the terms of `blocks` whole blocks, the first of which begins at word `first` of the buffer.
FOX_CLONES void add_blocks(const uint8_t* bytes, uint64_t blocks, uint64_t first, uint64_t out[2]) {
  uint64_t sum0[WIDTH] = {0}, sum1[WIDTH] = {0}, key0[WIDTH], key1[WIDTH];
  for (int j = 0; j < WIDTH; ++j) {
    key0[j] = fx1_key(first + j, FX1_S0, FX1_G0);
    key1[j] = fx1_key(first + j, FX1_S1, FX1_G1);
  }
  for (uint64_t block = 0; block < blocks; ++block) {
    uint64_t words[WIDTH];
    std::memcpy(words, bytes + block * sizeof words, sizeof words);
    for (int j = 0; j < WIDTH; ++j) {
      sum0[j] += fx1_term(words[j], key0[j]);
      sum1[j] += fx1_term(words[j], key1[j]);
      key0[j] += WIDTH * FX1_G0;
      key1[j] += WIDTH * FX1_G1;
    }
  }
  for (int j = 0; j < WIDTH; ++j) {
    out[0] += sum0[j];
    out[1] += sum1[j];
  }
}

}  // namespace

// out = both lanes' sums over `nbytes` bytes, padded with zeros to a word, that begin at word `first_word`.
extern "C" __attribute__((visibility("default"))) void fox_fx1_sums(const void* data, uint64_t nbytes,
                                                                    uint64_t first_word, uint64_t out[2]) {
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
  const uint64_t blocks = nbytes / (8 * WIDTH);
  out[0] = out[1] = 0;
  add_blocks(bytes, blocks, first_word, out);
  for (uint64_t at = blocks * 8 * WIDTH; at < nbytes; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, nbytes - at < 8 ? nbytes - at : 8);
    out[0] += fx1_term(word, fx1_key(first_word + at / 8, FX1_S0, FX1_G0));
    out[1] += fx1_term(word, fx1_key(first_word + at / 8, FX1_S1, FX1_G1));
  }
}
