// Linear algebra on the GPU.
#include "accumulate.cuh"
#include "elementwise.h"
#include "launch.cuh"
#include "product_tiles.cuh"
#include "sum_rows.cuh"
#include <torch/csrc/stable/library.h>

namespace fox {
namespace {
struct Linalg : Cuda {
  static constexpr int sum_lanes = 1;
  static int64_t span(int64_t) { return 1; }
  template <class T> static void product(const Tensor& like, Product<T> p) {
    if (p.chunks * p.m * p.n) launch_product(like, p);
  }
};
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(foxflow, CUDA, m) {
  m.impl("matmul", TORCH_BOX(&matmul<Linalg>));
  m.impl("matmul_nt", TORCH_BOX(&matmul_nt<Linalg>));
  m.impl("matmul_rows", TORCH_BOX(&matmul_rows<Linalg>));
  m.impl("sum_rows", TORCH_BOX(&sum_rows<Linalg>));
  m.impl("total_rows", TORCH_BOX(&total_rows<Linalg>));
  m.impl("accumulate", TORCH_BOX(&accumulate<Linalg>));
  m.impl("accumulate_outer", TORCH_BOX(&accumulate_outer<Linalg>));
  m.impl("portable", TORCH_BOX(&portable<Linalg>));
  m.impl("portable_pow", TORCH_BOX(&portable_pow<Linalg>));
}
}  // namespace fox
