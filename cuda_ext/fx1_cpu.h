// Lane sums of fx1 on a processor, for plain x86-64, AVX2 and AVX-512. Intrinsics, since g++ multiplies whole words where
// the term needs a product of halves: three times the work.
#pragma once
#include "fx1.h"
#include "simd.h"

#if defined(__x86_64__)
// g++ 12 warns of the registers that its own header leaves undefined on purpose.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

namespace fox {
inline void fx1_add_words(const uint8_t* bytes, uint64_t words, uint64_t first, uint64_t sums[2]) {
  uint64_t key_zero = fx1_key(first, FX1_S0, FX1_G0), key_one = fx1_key(first, FX1_S1, FX1_G1);
  for (uint64_t w = 0; w < words; ++w, key_zero += FX1_G0, key_one += FX1_G1) {
    uint64_t word;
    std::memcpy(&word, bytes + 8 * w, 8);
    sums[0] += fx1_term(word, key_zero);
    sums[1] += fx1_term(word, key_one);
  }
}

#if defined(__x86_64__)
FOX_AVX512 inline __m512i fx1_terms(__m512i x) {
  const __m512i turned = _mm512_shuffle_epi32(x, _MM_PERM_CDAB);
  const __m512i t = _mm512_add_epi64(_mm512_mul_epu32(x, turned), turned);
  return _mm512_xor_si512(t, _mm512_srli_epi64(t, 29));
}
FOX_AVX2 inline __m256i fx1_terms(__m256i x) {
  const __m256i turned = _mm256_shuffle_epi32(x, 0xB1);
  const __m256i t = _mm256_add_epi64(_mm256_mul_epu32(x, turned), turned);
  return _mm256_xor_si256(t, _mm256_srli_epi64(t, 29));
}

// The keys of words first … first + 7.
inline void fx1_keys(uint64_t first, uint64_t seed, uint64_t step, uint64_t keys[8]) {
  for (uint64_t j = 0; j < 8; ++j) keys[j] = fx1_key(first + j, seed, step);
}

FOX_AVX512 inline void fx1_add_avx512(const uint8_t* bytes, uint64_t blocks, uint64_t first, uint64_t sums[2]) {
  const uint64_t seeds[2] = {FX1_S0, FX1_S1}, units[2] = {FX1_G0, FX1_G1};
  __m512i key[2], sum[2], step[2];
  for (int lane = 0; lane < 2; ++lane) {
    uint64_t keys[8];
    fx1_keys(first, seeds[lane], units[lane], keys);
    key[lane] = _mm512_loadu_si512(keys);
    sum[lane] = _mm512_setzero_si512();
    step[lane] = _mm512_set1_epi64(static_cast<int64_t>(8 * units[lane]));
  }
  for (uint64_t block = 0; block < blocks; ++block) {
    const __m512i words = _mm512_loadu_si512(bytes + 64 * block);
    for (int lane = 0; lane < 2; ++lane) {
      sum[lane] = _mm512_add_epi64(sum[lane], fx1_terms(_mm512_xor_si512(words, key[lane])));
      key[lane] = _mm512_add_epi64(key[lane], step[lane]);
    }
  }
  for (int lane = 0; lane < 2; ++lane) sums[lane] += static_cast<uint64_t>(_mm512_reduce_add_epi64(sum[lane]));
}

FOX_AVX2 inline void fx1_add_avx2(const uint8_t* bytes, uint64_t blocks, uint64_t first, uint64_t sums[2]) {
  const uint64_t seeds[2] = {FX1_S0, FX1_S1}, units[2] = {FX1_G0, FX1_G1};
  __m256i key[2][2], sum[2], step[2];
  for (int lane = 0; lane < 2; ++lane) {
    uint64_t keys[8];
    fx1_keys(first, seeds[lane], units[lane], keys);
    for (int half = 0; half < 2; ++half)
      key[lane][half] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(keys + 4 * half));
    sum[lane] = _mm256_setzero_si256();
    step[lane] = _mm256_set1_epi64x(static_cast<int64_t>(8 * units[lane]));
  }
  for (uint64_t block = 0; block < blocks; ++block)
    for (int half = 0; half < 2; ++half) {
      const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + 64 * block + 32 * half));
      for (int lane = 0; lane < 2; ++lane) {
        sum[lane] = _mm256_add_epi64(sum[lane], fx1_terms(_mm256_xor_si256(words, key[lane][half])));
        key[lane][half] = _mm256_add_epi64(key[lane][half], step[lane]);
      }
    }
  for (int lane = 0; lane < 2; ++lane) {
    uint64_t parts[4];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(parts), sum[lane]);
    for (uint64_t part : parts) sums[lane] += part;
  }
}
#endif

// sums += both lanes over `nbytes` bytes, padded with zeros to a word, that begin at word `first`.
inline void fx1_add(const uint8_t* bytes, uint64_t nbytes, uint64_t first, uint64_t sums[2]) {
  uint64_t blocks = 0;
#if defined(__x86_64__)
  if (simd_level() != Simd::plain) {
    blocks = nbytes / 64;
    simd_level() == Simd::avx512 ? fx1_add_avx512(bytes, blocks, first, sums) : fx1_add_avx2(bytes, blocks, first, sums);
  }
#endif
  const uint64_t words = nbytes / 8 - 8 * blocks, done = 8 * (8 * blocks + words);
  fx1_add_words(bytes + 64 * blocks, words, first + 8 * blocks, sums);
  if (done == nbytes) return;
  uint8_t last[8] = {};
  std::memcpy(last, bytes + done, nbytes - done);
  fx1_add_words(last, 1, first + done / 8, sums);
}
}  // namespace fox
