// What every launch shares: device guard, current stream, int64 grid, launch check.
#pragma once
#include "check.h"
#include "hd.h"
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <torch/csrc/stable/accelerator.h>

namespace fox {
// The stream that torch uses now. Looked up at run time, so that the module also loads beside a CPU build of torch.
inline cudaStream_t current_stream(int32_t device) {
  using Lookup = int32_t (*)(int32_t, void**);
  static const Lookup lookup = [] {
    void* library = dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_LAZY);
    return reinterpret_cast<Lookup>(library ? dlsym(library, "aoti_torch_get_current_cuda_stream") : nullptr);
  }();
  FOX_CHECK(lookup != nullptr, "a CUDA build of torch must be loaded");
  void* stream = nullptr;
  FOX_CHECK(lookup(device, &stream) == 0, "torch has no current CUDA stream");
  return static_cast<cudaStream_t>(stream);
}

inline void check_launch(const char* kernel) {
  cudaError_t error = cudaGetLastError();
  FOX_CHECK(error == cudaSuccess, kernel, " could not be launched: ", cudaGetErrorString(error));
}

struct Launch {
  dim3 grid;
  unsigned threads;
  size_t shared_bytes = 0;
};

// Launches on the device and current stream of `like`.
template <class... P, class... A>
void launch(const char* name, void (*kernel)(P...), const Launch& at, const Tensor& like, const A&... arguments) {
  torch::stable::accelerator::DeviceGuard guard(like.get_device_index());
  kernel<<<at.grid, at.threads, at.shared_bytes, current_stream(like.get_device_index())>>>(arguments...);
  check_launch(name);
}

// Whether a block of `kernel` may have so many bytes of shared memory; more than 48 KiB must be asked for.
inline bool reserve(const Tensor& like, const void* kernel, size_t bytes) {
  torch::stable::accelerator::DeviceGuard guard(like.get_device_index());
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)) == cudaSuccess)
    return true;
  cudaGetLastError();
  return false;
}

inline unsigned blocks_of(int64_t n, int64_t per_block) {
  int64_t blocks = (n + per_block - 1) / per_block;
  FOX_CHECK(blocks <= INT32_MAX, "too many rows for one launch: ", n);
  return static_cast<unsigned>(blocks);
}

inline int64_t processors_of(const Tensor& like) {
  int count = 0;
  cudaError_t error = cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, like.get_device_index());
  FOX_CHECK(error == cudaSuccess, "the GPU does not say how many multiprocessors it has: ", cudaGetErrorString(error));
  return count;
}

template <class Row> __global__ void rows_kernel(int64_t n, Row row) {
  int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i < n) row(i);
}

struct Cuda {
  // Calls row(i) for i in [0, n), one thread a row, or takes the schedule that a `staged(like, n, row)` holds for such
  // rows: the same sums in the same order, through shared memory. It returns false where it has none for their sizes.
  template <class Row> static void rows(const Tensor& like, int64_t n, int64_t, Row row) {
    if (n == 0) return;
    if constexpr (requires { staged(like, n, row); })
      if (staged(like, n, row)) return;
    constexpr unsigned threads = 64;
    launch("rows_kernel", rows_kernel<Row>, {blocks_of(n, threads), threads}, like, n, row);
  }
};
}  // namespace fox
