// Matrix products on the GPU, for every file that needs one; product_tiles.cuh holds them.
#pragma once
#include "launch.cuh"
#include "linalg.h"

namespace fox {
template <class T> void launch_product(const Tensor& like, const Product<T>& p);
}  // namespace fox
