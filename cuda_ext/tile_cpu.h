// One tile of a matrix product in registers, for plain x86-64, AVX2+FMA and AVX-512: GCC's vectors, their lanes by fmaf.
#pragma once
#include "cpu.h"
#include "row.h"
#include "vector_cpu.h"

namespace fox {
// Rows of a with strides in elements, a packed panel of b, rows of c, of which `columns` are the panel's.
template <class T> struct Tile {
  const T *a, *b, *bias;
  T* c;
  int64_t a_row, a_k, b_k, depth, c_row, columns;
};

// A panel of b to be packed: to[k, j] = from[k, j] for j < columns, then zeros up to the next whole vector. A panel of
// one vector takes rows of a the same way.
template <class T> struct Panel {
  const T* from;
  T* to;
  int64_t k_stride, column_stride, to_k, depth, columns;
};

template <int Lanes> FOX_HD void pack_transposed(const Panel<float>& panel, int64_t k, int64_t column) {
  using Vec = typename Vector<float, Lanes>::type;
  Vec rows[Lanes];
#pragma GCC unroll 16
  for (int j = 0; j < Lanes; ++j)
    rows[j] = *reinterpret_cast<const Vec*>(panel.from + (column + j) * panel.column_stride + k);
  transpose<Lanes>(rows);
#pragma GCC unroll 16
  for (int i = 0; i < Lanes; ++i) *reinterpret_cast<Vec*>(panel.to + (k + i) * panel.to_k + column) = rows[i];
}

template <class T, int Lanes> FOX_HD void pack_columns(const Panel<T>& panel, int64_t column) {
  using Vec = typename Vector<T, Lanes>::type;
  const T* from = panel.from + column * panel.column_stride;
  T* to = panel.to + column;
  int64_t columns = panel.columns - column < Lanes ? panel.columns - column : Lanes, k = 0;
  if (columns == Lanes && panel.column_stride == 1)
    for (; k < panel.depth; ++k)
      *reinterpret_cast<Vec*>(to + k * panel.to_k) = *reinterpret_cast<const Vec*>(from + k * panel.k_stride);
  if constexpr (sizeof(T) == sizeof(float))
    if (columns == Lanes && panel.k_stride == 1)
      for (; k + Lanes <= panel.depth; k += Lanes) pack_transposed<Lanes>(panel, k, column);
  for (; k < panel.depth; ++k) {
    for (int64_t j = 0; j < columns; ++j) to[k * panel.to_k + j] = from[k * panel.k_stride + j * panel.column_stride];
    for (int64_t j = columns; j < Lanes; ++j) to[k * panel.to_k + j] = T(0);
  }
}
template <class T, int Lanes> FOX_HD void pack_panel(const Panel<T>& panel) {
  for (int64_t column = 0; column < panel.columns; column += Lanes) pack_columns<T, Lanes>(panel, column);
}

// c = sums, + bias where there is one, of the columns that c has.
template <class T> __attribute__((noinline)) void store_columns(const Tile<T>& tile, const T* sums, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < tile.columns; ++j)
      tile.c[r * tile.c_row + j] = tile.bias ? sums[r * width + j] + tile.bias[j] : sums[r * width + j];
}

// Rows x Vectors sums that never leave the registers while k ascends.
template <class T, int Lanes, int Rows, int Vectors> FOX_HD void multiply_tile(const Tile<T>& tile) {
  using Vec = typename Vector<T, Lanes>::type;
  Vec sum[Rows][Vectors];
  const T *a = tile.a, *b = tile.b;
  const int64_t a_row = tile.a_row, a_k = tile.a_k, b_k = tile.b_k, depth = tile.depth;
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) sum[r][v] = Vec{};
  for (int64_t k = 0; k < depth; ++k, a += a_k, b += b_k) {
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v)
        sum[r][v] = fma_lanes<T, Lanes>(a[r * a_row], *reinterpret_cast<const Vec*>(b + v * Lanes), sum[r][v]);
  }
  if (tile.columns < Lanes * Vectors) {
    T sums[Rows * Lanes * Vectors];
    __builtin_memcpy(sums, sum, sizeof sums);
    return store_columns(tile, sums, Rows, Lanes * Vectors);
  }
  if (tile.bias) {
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) {
      const Vec bias = *reinterpret_cast<const Vec*>(tile.bias + v * Lanes);
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) sum[r][v] = sum[r][v] + bias;
    }
  }
  T* const c = tile.c;
  const int64_t c_row = tile.c_row;
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) *reinterpret_cast<Vec*>(c + r * c_row + v * Lanes) = sum[r][v];
}

// A panel is two vectors wide; one suffices where c has no more columns.
template <class T, int Lanes, int Rows> FOX_HD void multiply_panel(const Tile<T>& tile) {
  if (tile.columns > Lanes) return multiply_tile<T, Lanes, Rows, 2>(tile);
  multiply_tile<T, Lanes, Rows, 1>(tile);
}
template <class T> void plain_pack(const Panel<T>& panel) { pack_panel<T, 4>(panel); }
template <class T, int Rows> void plain_tile(const Tile<T>& tile) { multiply_panel<T, 4, Rows>(tile); }
#if defined(__x86_64__)
FOX_AVX2 inline void avx2_pack(const Panel<float>& panel) { pack_panel<float, 8>(panel); }
FOX_AVX512 inline void avx512_pack(const Panel<float>& panel) { pack_panel<float, 16>(panel); }
template <int Rows> FOX_AVX2 void avx2_tile(const Tile<float>& tile) { multiply_panel<float, 8, Rows>(tile); }
template <int Rows> FOX_AVX512 void avx512_tile(const Tile<float>& tile) { multiply_panel<float, 16, Rows>(tile); }
#endif

// The kernels of one level: of[r - 1] multiplies r rows, at most `rows`, by a panel of `columns`.
template <class T> struct TileKernels {
  void (*const* of)(const Tile<T>&);
  void (*pack)(const Panel<T>&);
  int64_t rows, columns;
};

template <class T> TileKernels<T> plain_kernels() {
  static constexpr void (*plain[])(const Tile<T>&) = {plain_tile<T, 1>, plain_tile<T, 2>};
  return {plain, plain_pack<T>, 2, 8};
}
template <class T> TileKernels<T> tile_kernels() { return plain_kernels<T>(); }
#if defined(__x86_64__)
template <> inline TileKernels<float> tile_kernels() {
  static constexpr void (*avx2[])(const Tile<float>&) = {avx2_tile<1>, avx2_tile<2>, avx2_tile<3>,
                                                         avx2_tile<4>, avx2_tile<5>, avx2_tile<6>};
  static constexpr void (*avx512[])(const Tile<float>&) = {
      avx512_tile<1>, avx512_tile<2>, avx512_tile<3>,  avx512_tile<4>,  avx512_tile<5>,  avx512_tile<6>,  avx512_tile<7>,
      avx512_tile<8>, avx512_tile<9>, avx512_tile<10>, avx512_tile<11>, avx512_tile<12>, avx512_tile<13>, avx512_tile<14>};
  if (simd_level() == Simd::avx512) return {avx512, avx512_pack, 14, 32};
  if (simd_level() == Simd::avx2) return {avx2, avx2_pack, 6, 16};
  return plain_kernels<float>();
}
#endif
}  // namespace fox
