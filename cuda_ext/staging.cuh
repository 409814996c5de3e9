// Shared memory as the staged schedules use it: how much, and asynchronous copies into it.
#pragma once
#include "hd.h"
#include <cuda_pipeline.h>
#include <cstdint>

namespace fox {
constexpr int64_t most_shared_bytes = 48 * 1024;  // of one block, on every GPU

template <class T> __device__ T* shared_memory() {
  extern __shared__ __align__(16) unsigned char shared[];
  return reinterpret_cast<T*>(shared);
}

// Elements of T up to the next whole 16 bytes, so that what follows is aligned.
template <class T> FOX_HD int64_t aligned(int64_t count) { return (count * sizeof(T) + 15) / 16 * 16 / sizeof(T); }

// Asks for `count` elements with all threads of the block, 16 bytes at a time where they are aligned. `to` is.
template <class T> __device__ void fetch(T* to, const T* from, int count) {
  constexpr int wide = 16 / sizeof(T);
  if (count % wide == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0)
    for (int i = threadIdx.x * wide; i < count; i += blockDim.x * wide) __pipeline_memcpy_async(to + i, from + i, 16);
  else
    for (int i = threadIdx.x; i < count; i += blockDim.x) __pipeline_memcpy_async(to + i, from + i, sizeof(T));
}
}  // namespace fox
