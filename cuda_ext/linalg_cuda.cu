// Linear algebra on the GPU: tiles through shared memory, k ascending in each element.
#include "linalg.h"
#include "elementwise.h"
#include "launch.cuh"
#include <torch/csrc/stable/library.h>

namespace fox {
namespace {
constexpr int tile = 32, per_thread = 2, side = tile / per_thread;

template <class T> __global__ void __launch_bounds__(side* side) product_kernel(Product<T> p) {
  __shared__ T a_tile[tile][tile + 1], b_tile[tile][tile + 1];
  int64_t chunk = blockIdx.z, row = blockIdx.y * static_cast<int64_t>(tile), column = blockIdx.x * static_cast<int64_t>(tile);
  int64_t depth = p.depth(chunk);
  int x = threadIdx.x % side, y = threadIdx.x / side;
  T sum[per_thread][per_thread] = {};
  for (int64_t k0 = 0; k0 < depth; k0 += tile) {
    for (int e = threadIdx.x; e < tile * tile; e += side * side) {
      int i = e / tile, j = e % tile;
      bool a_in = row + i < p.m && k0 + j < depth, b_in = k0 + i < depth && column + j < p.n;
      a_tile[i][j] = a_in ? p.a[chunk * p.a_chunk + (row + i) * p.a_row + (k0 + j) * p.a_k] : T(0);
      b_tile[i][j] = b_in ? p.b[chunk * p.b_chunk + (k0 + i) * p.b_k + (column + j) * p.b_column] : T(0);
    }
    __syncthreads();
    int size = depth - k0 < tile ? static_cast<int>(depth - k0) : tile;
    for (int k = 0; k < size; ++k)
      for (int r = 0; r < per_thread; ++r)
        for (int s = 0; s < per_thread; ++s)
          sum[r][s] = px::fma(a_tile[y * per_thread + r][k], b_tile[k][x * per_thread + s], sum[r][s]);
    __syncthreads();
  }
  for (int r = 0; r < per_thread; ++r)
    for (int s = 0; s < per_thread; ++s) {
      int64_t i = row + y * per_thread + r, j = column + x * per_thread + s;
      if (i < p.m && j < p.n) p.c[(chunk * p.m + i) * p.n + j] = p.bias ? sum[r][s] + p.bias[j] : sum[r][s];
    }
}

struct Linalg : Cuda {
  static constexpr int sum_lanes = 1;
  template <class T> static void product(const Tensor& like, Product<T> p) {
    if (p.chunks * p.m * p.n == 0) return;
    torch::stable::accelerator::DeviceGuard guard(like.get_device_index());
    FOX_CHECK(p.chunks <= 65535 && (p.m + tile - 1) / tile <= 65535, "the product is too large for one launch");
    dim3 grid(static_cast<unsigned>((p.n + tile - 1) / tile), static_cast<unsigned>((p.m + tile - 1) / tile),
              static_cast<unsigned>(p.chunks));
    product_kernel<<<grid, side * side, 0, current_stream(like.get_device_index())>>>(p);
    check_launch("product_kernel");
  }
};
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(foxflow, CUDA, m) {
  m.impl("matmul", TORCH_BOX(&matmul<Linalg>));
  m.impl("matmul_nt", TORCH_BOX(&matmul_nt<Linalg>));
  m.impl("matmul_rows", TORCH_BOX(&matmul_rows<Linalg>));
  m.impl("sum_rows", TORCH_BOX(&sum_rows<Linalg>));
  m.impl("portable", TORCH_BOX(&portable<Linalg>));
  m.impl("portable_pow", TORCH_BOX(&portable_pow<Linalg>));
}
}  // namespace fox
