// Digest fx1 for readers of records: plain C for ctypes, without torch.
#include "fx1_cpu.h"

// out = both lanes' sums over `nbytes` bytes, padded with zeros to a word, that begin at word `first_word`.
extern "C" __attribute__((visibility("default"))) void fox_fx1_sums(const void* data, uint64_t nbytes,
                                                                    uint64_t first_word, uint64_t out[2]) {
  out[0] = out[1] = 0;
  fox::fx1_add(static_cast<const uint8_t*>(data), nbytes, first_word, out);
}
