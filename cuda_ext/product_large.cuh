// Large matrix products on the GPU, which its additions bound: 8 by 8 elements of c a thread, both operands k by k in
// shared memory, each k read while the one before is added; k ascends in each element.
#pragma once
#include "product.cuh"
#include "staging.cuh"

namespace fox {
constexpr int large_columns = 64, large_slots = 3, large_each = 8;

// One operand of a block: Size rows of a, or columns of b, side by side in shared memory for each of Deep k. Minor: in
// its tensor k lie side by side, so they are copied one by one; else the rows do, and four are.
template <int Size, int Deep, int Threads, bool Minor> struct Lines {
  static constexpr int stride = Size + 4, elements = Deep * stride;  // with 4 more, eight k and four rows are 32 banks
  static constexpr int lanes = Minor ? 8 : Size / 4, step = Threads / lanes;
  const float* from;
  int64_t next;                   // from one k-tile to the next
  uint32_t line, offset;          // from one line of neighbours to the next; this thread's first element
  int to, rows, along, across;

  __device__ Lines(const float* first, int64_t row_stride, int64_t k_stride, int64_t left)
      : from(first), next(Deep * k_stride), line(static_cast<uint32_t>(Minor ? row_stride : k_stride)),
        rows(left < Size ? static_cast<int>(left) : Size), along(threadIdx.x % lanes * (Minor ? 1 : 4)),
        across(threadIdx.x / lanes) {
    offset = across * line + along;
    to = Minor ? along * stride + across : across * stride + along;
  }

  template <bool Whole> __device__ void copy(float* tile, int depth) const {
    if constexpr (Minor) {
#pragma unroll
      for (int i = 0; i < Size; i += step)
#pragma unroll
        for (int k = 0; k < Deep; k += lanes)
          if (Whole || (across + i < rows && along + k < depth))
            __pipeline_memcpy_async(tile + to + i + k * stride, from + (offset + i * line + k), sizeof(float));
    } else {
#pragma unroll
      for (int k = 0; k < Deep; k += step)
        if (Whole || (along < rows && across + k < depth))
          __pipeline_memcpy_async(tile + to + k * stride, from + (offset + k * line), 4 * sizeof(float));
    }
  }

  // Copies the next k-tile, of which `depth` are left. What lies past an edge is left as it was and reaches no c.
  __device__ void fetch(float* tile, int depth) {
    rows == Size && depth >= Deep ? copy<true>(tile, Deep) : copy<false>(tile, depth);
    from += next;
  }
};

// Eight elements of one k for a thread: four, and four of the next group.
__device__ inline void read_each(float (&to)[large_each], const float* from, int group) {
#pragma unroll
  for (int i = 0; i < large_each; i += 4) {
    const float4 quad = *reinterpret_cast<const float4*>(from + i / 4 * group);
    to[i] = quad.x, to[i + 1] = quad.y, to[i + 2] = quad.z, to[i + 3] = quad.w;
  }
}

template <int Rows, int Deep, bool MinorA, bool MinorB>
__global__ void __launch_bounds__(Rows, 512 / Rows) product_large_kernel(const __grid_constant__ Product<float> p) {
  using A = Lines<Rows, Deep, Rows, MinorA>;
  using B = Lines<large_columns, Deep, Rows, MinorB>;
  constexpr int slots = large_slots, slot_elements = A::elements + B::elements;
  __shared__ __align__(16) float tiles[slots][slot_elements];
  const int64_t chunk = blockIdx.z, row = blockIdx.x * static_cast<int64_t>(Rows);
  const int64_t column = blockIdx.y * static_cast<int64_t>(large_columns);
  const int depth = static_cast<int>(p.depth(chunk));
  A a(p.a + chunk * p.a_chunk + row * p.a_row, p.a_row, p.a_k, p.m - row);
  B b(p.b + chunk * p.b_chunk + column * p.b_column, p.b_column, p.b_k, p.n - column);
  auto request = [&](int left, int slot) {
    if (left > 0) {
      a.fetch(tiles[slot], left);
      b.fetch(tiles[slot] + A::elements, left);
    }
    __pipeline_commit();
  };
  for (int slot = 0; slot < slots - 1; ++slot) request(depth - slot * Deep, slot);

  // A warp takes 32 rows of all columns; threads share addresses in neighbouring pairs, as in product_kernel.
  const int x = threadIdx.x / 2 % 8 * 4, y = threadIdx.x / 32 * 32 + (threadIdx.x % 2 + threadIdx.x % 32 / 16 * 2) * 4;
  float sum[large_each][large_each] = {}, left[2][large_each], right[2][large_each];
  auto read = [&](int turn, int slot, int k) {
    read_each(left[turn], tiles[slot] + k * A::stride + y, 16);
    read_each(right[turn], tiles[slot] + A::elements + k * B::stride + x, 32);
  };
  // Two by two, to and fro: of what is added in turn, one factor is the one before's, and is not read anew.
  auto add = [&](int turn) {
    auto one = [&](int r, int c) { sum[r][c] = px::fma(left[turn][r], right[turn][c], sum[r][c]); };
#pragma unroll
    for (int c = 0; c < large_each; c += 2)
#pragma unroll
      for (int i = 0; i < large_each; i += 2) {
        const int r = c % 4 ? large_each - 2 - i : i;
        one(r, c), one(r + 1, c), one(r + 1, c + 1), one(r, c + 1);
      }
  };
  __pipeline_wait_prior(slots - 2);
  __syncthreads();
  read(0, 0, 0);
  int slot = 0, rest = depth;
  for (; rest >= Deep; rest -= Deep) {
    const int now = slot;
    request(rest - (slots - 1) * Deep, now == 0 ? slots - 1 : now - 1);
    slot = now + 1 == slots ? 0 : now + 1;
#pragma unroll
    for (int k = 0; k < Deep; ++k) {
      if (k < Deep - 1) read((k + 1) % 2, now, k + 1);
      else {
        __pipeline_wait_prior(slots - 2);
        __syncthreads();
        read((k + 1) % 2, slot, 0);
      }
      add(k % 2);
    }
  }
  for (int k = 0; k < rest; ++k) {
    read(0, slot, k);
    add(0);
  }
#pragma unroll
  for (int r = 0; r < large_each; ++r) {
    const int64_t i = row + y + r / 4 * 16 + r % 4;
    if (i >= p.m) continue;
#pragma unroll
    for (int c = 0; c < large_each; c += 4) {
      const int64_t j = column + x + c / 4 * 32;
      if (j >= p.n) continue;
      float4 found = make_float4(sum[r][c], sum[r][c + 1], sum[r][c + 2], sum[r][c + 3]);
      if (p.bias) found.x += p.bias[j], found.y += p.bias[j + 1], found.z += p.bias[j + 2], found.w += p.bias[j + 3];
      *reinterpret_cast<float4*>(p.c + (chunk * p.m + i) * p.n + j) = found;
    }
  }
}

// Whether vectors of four reach an operand, and 32 bits the elements of a tile.
inline bool fits_lines(const float* first, bool minor, int64_t line, int64_t chunk) {
  const bool fours = line % 4 == 0 && chunk % 4 == 0 && reinterpret_cast<uintptr_t>(first) % 16 == 0;
  return (minor || fours) && line < (int64_t(1) << 24);
}

template <int Rows, int Deep, bool MinorA, bool MinorB> void launch_large_as(const Tensor& like, const Product<float>& p) {
  const dim3 grid(blocks_of(p.m, Rows), blocks_of(p.n, large_columns), static_cast<unsigned>(p.chunks));
  launch("product_large_kernel", product_large_kernel<Rows, Deep, MinorA, MinorB>, {grid, Rows}, like, p);
}

// Launches a product of a block for every multiprocessor; tells whether it is one.
inline bool launch_large(const Tensor& like, const Product<float>& p) {
  const bool minor_a = p.a_row != 1, minor_b = p.b_column != 1, low = p.m <= 64;
  const int64_t across = (p.n + large_columns - 1) / large_columns, rows = low ? 64 : 128;
  const bool fits = fits_lines(p.a, minor_a, minor_a ? p.a_row : p.a_k, p.a_chunk) &&
                    fits_lines(p.b, minor_b, minor_b ? p.b_column : p.b_k, p.b_chunk) && p.k <= INT32_MAX &&
                    p.n % 4 == 0 && reinterpret_cast<uintptr_t>(p.c) % 16 == 0 && p.chunks <= 65535 && across <= 65535;
  if (!fits || p.chunks * ((p.m + rows - 1) / rows) * across < processors_of(like)) return false;
  if (!minor_a) low ? launch_large_as<64, 16, false, false>(like, p) : launch_large_as<128, 16, false, false>(like, p);
  else if (minor_b) launch_large_as<128, 8, true, true>(like, p);
  else launch_large_as<128, 8, true, false>(like, p);
  return true;
}
}  // namespace fox
