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

template <class Row> __global__ void rows_kernel(int64_t n, Row row) {
  int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i < n) row(i);
}

struct Cuda {
  // Calls row(i) for i in [0, n), one thread a row, on the device and current stream of `like`.
  template <class Row> static void rows(const Tensor& like, int64_t n, int64_t, Row row) {
    if (n == 0) return;
    torch::stable::accelerator::DeviceGuard guard(like.get_device_index());
    constexpr int threads = 64;
    int64_t blocks = (n + threads - 1) / threads;
    FOX_CHECK(blocks <= INT32_MAX, "too many rows for one launch: ", n);
    rows_kernel<<<static_cast<unsigned>(blocks), threads, 0, current_stream(like.get_device_index())>>>(n, row);
    check_launch("rows_kernel");
  }
};
}  // namespace fox
