// Linear algebra on CPU threads: panels of b packed once, tiles of c in registers, k ascending in each element.
#include "linalg.h"
#include "elementwise.h"
#include "cpu.h"
#include <torch/csrc/stable/library.h>

namespace fox {
namespace {
constexpr int64_t tile_rows = 6, panel_columns = 32;

template <class T> struct PackPanel {  // one row k of one panel, zeros past the last column
  Product<T> p;
  T* panels;
  int64_t panel_count;
  FOX_HD void operator()(int64_t i) const {
    int64_t k = i % p.k, panel = i / p.k % panel_count, chunk = i / p.k / panel_count;
    T* to = panels + i * panel_columns;
    if (k >= p.depth(chunk)) return;
    const T* from = p.b + chunk * p.b_chunk + k * p.b_k + panel * panel_columns * p.b_column;
    int64_t columns = p.n - panel * panel_columns < panel_columns ? p.n - panel * panel_columns : panel_columns;
    for (int64_t j = 0; j < columns; ++j) to[j] = from[j * p.b_column];
    for (int64_t j = columns; j < panel_columns; ++j) to[j] = T(0);
  }
};

template <class T> struct Tile {  // tile_rows rows of one chunk, all panels
  Product<T> p;
  const T* panels;
  int64_t panel_count, row_tiles;
  FOX_HD void operator()(int64_t i) const {
    int64_t chunk = i / row_tiles, row = i % row_tiles * tile_rows, depth = p.depth(chunk);
    int64_t rows = p.m - row < tile_rows ? p.m - row : tile_rows;
    const T* a[tile_rows];
    for (int64_t r = 0; r < tile_rows; ++r) a[r] = p.a + chunk * p.a_chunk + (row + (r < rows ? r : 0)) * p.a_row;
    for (int64_t panel = 0; panel < panel_count; ++panel) {
      const T* b = panels + (chunk * panel_count + panel) * p.k * panel_columns;
      T sum[tile_rows][panel_columns];
      for (int64_t r = 0; r < tile_rows; ++r)
        for (int64_t j = 0; j < panel_columns; ++j) sum[r][j] = T(0);
      for (int64_t k = 0; k < depth; ++k) {
#pragma GCC unroll 6
        for (int64_t r = 0; r < tile_rows; ++r) {
          T factor = a[r][k * p.a_k];
#pragma GCC ivdep
          for (int64_t j = 0; j < panel_columns; ++j)
            sum[r][j] = px::fma(factor, b[k * panel_columns + j], sum[r][j]);
        }
      }
      int64_t column = panel * panel_columns;
      int64_t columns = p.n - column < panel_columns ? p.n - column : panel_columns;
      for (int64_t r = 0; r < rows; ++r) {
        T* c = p.c + (chunk * p.m + row + r) * p.n + column;
        for (int64_t j = 0; j < columns; ++j) c[j] = p.bias ? sum[r][j] + p.bias[column + j] : sum[r][j];
      }
    }
  }
};

struct Linalg : Cpu {
  static constexpr int sum_lanes = 64;
  template <class T> static void product(const Tensor& like, Product<T> p) {
    int64_t panel_count = (p.n + panel_columns - 1) / panel_columns, row_tiles = (p.m + tile_rows - 1) / tile_rows;
    Tensor panels = make<T>(like, {p.chunks * panel_count * p.k * panel_columns});
    rows(like, p.chunks * panel_count * p.k, 256, PackPanel<T>{p, out<T>(panels), panel_count});
    int64_t tile_work = tile_rows * panel_count * panel_columns * p.k;
    rows(like, p.chunks * row_tiles, 1 + 65536 / (tile_work + 1), Tile<T>{p, out<T>(panels), panel_count, row_tiles});
  }
};
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(foxflow, CPU, m) {
  m.impl("matmul", TORCH_BOX(&matmul<Linalg>));
  m.impl("matmul_nt", TORCH_BOX(&matmul_nt<Linalg>));
  m.impl("matmul_rows", TORCH_BOX(&matmul_rows<Linalg>));
  m.impl("sum_rows", TORCH_BOX(&sum_rows<Linalg>));
  m.impl("portable", TORCH_BOX(&portable<Linalg>));
  m.impl("portable_pow", TORCH_BOX(&portable_pow<Linalg>));
}
}  // namespace fox
