// Matrix products on the GPU: tiles of a and b in shared memory, copied ahead of their use; k ascends in each element.
#pragma once
#include <algorithm>
#include "product.cuh"
#include "product_large.cuh"
#include "staging.cuh"

namespace fox {
constexpr int product_threads = 64, beside = 8, quad = 4, product_slots = 4;

// A block's tile of c is Rows x Columns, its threads lie beside x beside in it; a k-tile is Deep.
template <int Rows, int Columns, int Deep> struct Tiling {
  static constexpr int rows = Rows, columns = Columns, r = Rows / beside, c = Columns / beside, deep = Deep;
};

// Copies Across lines of Along neighbours, V of them at a time, as far as `along` and `across` reach. What lies past
// them is left as it was: it reaches no element of c.
template <int Along, int Across, int Stride, int V, class T>
__device__ void copy_lines(T* to, const T* from, int64_t stride, int along, int across) {
  constexpr int lanes = Along / V, lines = product_threads / lanes;
  const int i = threadIdx.x % lanes * V, j = threadIdx.x / lanes;
  to += j * Stride + i;
  from += j * stride + i;
  if (i >= along) return;
#pragma unroll
  for (int line = 0; line < Across; line += lines)
    if (line + j < across) __pipeline_memcpy_async(to + line * Stride, from + line * stride, V * sizeof(T));
}

// One operand of a block: Size rows of a, or columns of b. In shared memory they lie as they do in its tensor: k side
// by side (Minor), or rows side by side.
template <class T, int Size, int Deep, bool Minor> struct Operand {
  static constexpr int stride = Minor ? Deep + quad : Size;  // rows 4 banks apart serve neighbouring threads at once
  static constexpr int elements = (Minor ? Size : Deep) * stride, each = Size / beside;
  static constexpr int group = each < quad ? each : quad, wide = 16 / sizeof(T);
  const T* from;
  int64_t line;  // from one line of neighbours to the next
  int rows;
  bool quads;

  __device__ Operand(const T* first, int64_t row_stride, int64_t k_stride, int64_t left, int64_t depth)
      : from(first), line(Minor ? row_stride : k_stride), rows(left < Size ? left : Size),
        quads(line % wide == 0 && (Minor ? depth : left) % wide == 0 && reinterpret_cast<uintptr_t>(first) % 16 == 0) {}

  template <int V> __device__ void copy(T* to, const T* at, int depth) const {
    if constexpr (Minor) copy_lines<Deep, Size, stride, V>(to, at, line, depth, rows);
    else copy_lines<Size, Deep, stride, V>(to, at, line, rows, depth);
  }
  __device__ void fetch(T* to, int64_t k, int64_t left) const {
    const T* at = from + (Minor ? k : k * line);
    const int depth = left < Deep ? static_cast<int>(left) : Deep;
    quads ? copy<wide>(to, at, depth) : copy<1>(to, at, depth);
  }

  // Which rows a thread takes: every eighth, or groups of neighbours.
  __device__ static int row(int thread, int i) {
    return Minor ? thread + i * beside : thread * group + i / group * (group * beside) + i % group;
  }
  // Four k of a thread's rows, from `at` on.
  __device__ static void read(T (&to)[each][quad], const T* tile, int thread, int at) {
    const T* from = tile + (Minor ? thread * stride + at : thread * group + at * stride);
#pragma unroll
    for (int i = 0; i < each; ++i)
#pragma unroll
      for (int k = 0; k < quad; ++k)
        to[i][k] = from[Minor ? i * beside * stride + k : i / group * (group * beside) + i % group + k * stride];
  }
};

// What a thread writes at once.
template <class T, int Size> struct alignas(Size * sizeof(T)) Neighbours {
  T of[Size];
};

// Adds up to four k: all of them, or `size`.
template <bool Whole, int R, int C, class T>
__device__ void add_quad(T (&sum)[R][C], const T (&x)[R][quad], const T (&y)[C][quad], int size) {
#pragma unroll
  for (int k = 0; k < quad; ++k)
    if (Whole || k < size)
#pragma unroll
      for (int r = 0; r < R; ++r)
#pragma unroll
        for (int c = 0; c < C; ++c) sum[r][c] = px::fma(x[r][k], y[c][k], sum[r][c]);
}

template <class T, class Tiles, bool MinorA, bool MinorB>
__global__ void __launch_bounds__(product_threads) product_kernel(const __grid_constant__ Product<T> p) {
  using A = Operand<T, Tiles::rows, Tiles::deep, MinorA>;
  using B = Operand<T, Tiles::columns, Tiles::deep, MinorB>;
  constexpr int slots = product_slots, deep = Tiles::deep, R = Tiles::r, C = Tiles::c;
  __shared__ __align__(16) T tiles[slots][A::elements + B::elements];
  const int64_t chunk = blockIdx.z, depth = p.depth(chunk);
  const int64_t row = blockIdx.x * static_cast<int64_t>(Tiles::rows);
  const int64_t column = blockIdx.y * static_cast<int64_t>(Tiles::columns);
  const A a(p.a + chunk * p.a_chunk + row * p.a_row, p.a_row, p.a_k, p.m - row, depth);
  const B b(p.b + chunk * p.b_chunk + column * p.b_column, p.b_column, p.b_k, p.n - column, depth);
  auto request = [&](int64_t k, int slot) {
    if (k < depth) {
      a.fetch(tiles[slot], k, depth - k);
      b.fetch(tiles[slot] + A::elements, k, depth - k);
    }
    __pipeline_commit();
  };
  for (int slot = 0; slot < slots - 1; ++slot) request(slot * deep, slot);
  // A warp's threads share addresses in neighbouring pairs, so that shared memory serves more of them in one turn.
  const int x = threadIdx.x / 2 % beside, y = threadIdx.x % 2 + threadIdx.x / 16 * 2;
  T sum[R][C] = {};
  int slot = 0;
  for (int64_t k = 0; k < depth; k += deep) {
    __pipeline_wait_prior(slots - 2);
    __syncthreads();
    request(k + (slots - 1) * deep, (slot + slots - 1) % slots);
    const T *of_a = tiles[slot], *of_b = of_a + A::elements;
    T left[R][quad], right[C][quad];
    if (depth - k >= deep) {
#pragma unroll
      for (int at = 0; at < deep; at += quad) {
        A::read(left, of_a, y, at);
        B::read(right, of_b, x, at);
        add_quad<true>(sum, left, right, 0);
      }
    } else {
      const int size = static_cast<int>(depth - k);
      for (int at = 0; at < size; at += quad) {
        A::read(left, of_a, y, at);
        B::read(right, of_b, x, at);
        add_quad<false>(sum, left, right, size - at);
      }
    }
    slot = (slot + 1) % slots;
  }
  constexpr int G = MinorB ? 1 : B::group;
  const bool whole = p.n % G == 0 && reinterpret_cast<uintptr_t>(p.c) % sizeof(Neighbours<T, G>) == 0;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int64_t i = row + A::row(y, r);
    T* to = p.c + (chunk * p.m + i) * p.n;
    if (i >= p.m) continue;
#pragma unroll
    for (int c = 0; c < C; c += G) {
      const int64_t j = column + B::row(x, c);
      Neighbours<T, G> found;
#pragma unroll
      for (int g = 0; g < G; ++g)
        found.of[g] = p.bias && j + g < p.n ? sum[r][c + g] + p.bias[j + g] : sum[r][c + g];
      if (whole && j < p.n) *reinterpret_cast<Neighbours<T, G>*>(to + j) = found;
#pragma unroll
      for (int g = 0; g < G; ++g)
        if (!whole && j + g < p.n) to[j + g] = found.of[g];
    }
  }
}

template <class Tiles, class T> void launch_tiles(const Tensor& like, const Product<T>& p) {
  int64_t across = (p.n + Tiles::columns - 1) / Tiles::columns;
  FOX_CHECK(p.chunks <= 65535 && across <= 65535, "the product is too large for one launch");
  const Launch at{dim3(blocks_of(p.m, Tiles::rows), static_cast<unsigned>(across), static_cast<unsigned>(p.chunks)),
                  product_threads};
  const bool minor_a = p.a_row != 1, minor_b = p.b_column != 1;
  if (!minor_a) launch("product_kernel", product_kernel<T, Tiles, false, false>, at, like, p);
  else if (minor_b) launch("product_kernel", product_kernel<T, Tiles, true, true>, at, like, p);
  else launch("product_kernel", product_kernel<T, Tiles, true, false>, at, like, p);
}

// What a launch costs: cycles a k of the busiest multiprocessor, which adds for four warps at once and reads R + C
// quads a thread for one, two turns a quad.
template <class Tiles, class T> int64_t cost_of(const Product<T>& p, int64_t processors) {
  int64_t blocks = p.chunks * ((p.m + Tiles::rows - 1) / Tiles::rows) * ((p.n + Tiles::columns - 1) / Tiles::columns);
  int64_t turns = (blocks + processors - 1) / processors;
  return std::max<int64_t>((turns + 1) / 2 * (Tiles::r * Tiles::c), turns * (Tiles::r + Tiles::c));
}

// Launches with the cheapest tiles, of those the first.
template <class First, class... Rest, class T>
void launch_cheapest(const Tensor& like, const Product<T>& p, int64_t processors) {
  int64_t cost = cost_of<First>(p, processors);
  if constexpr (sizeof...(Rest) > 0)
    if (((cost_of<Rest>(p, processors) < cost) || ...)) return launch_cheapest<Rest...>(like, p, processors);
  launch_tiles<First>(like, p);
}

template <class T> void launch_product(const Tensor& like, const Product<T>& p) {
  if constexpr (sizeof(T) == 8) return launch_tiles<Tiling<16, 16, 32>>(like, p);
  else if (!launch_large(like, p))
    launch_cheapest<Tiling<64, 64, 16>, Tiling<64, 32, 16>, Tiling<32, 32, 32>, Tiling<32, 16, 32>, Tiling<16, 16, 64>>(
        like, p, processors_of(like));
}

template void launch_product(const Tensor&, const Product<float>&);
template void launch_product(const Tensor&, const Product<double>&);
}  // namespace fox
