// Linear algebra on CPU threads: tiles of c in registers, panels of b packed once a thread, k ascending in each element.
#include "linalg.h"
#include "cpu.h"
#include "elementwise.h"
#include "tile_cpu.h"

#include <memory>
#include <new>
#include <torch/csrc/stable/library.h>

namespace fox {
namespace {
// The rows of every chunk cut in tiles of nearly one height, its columns in panels of one width.
template <class T> struct Grid {
  Product<T> p;
  TileKernels<T> kernels;
  int64_t tiles, panels, group, groups;

  explicit Grid(const Product<T>& product)
      : p(product), kernels(tile_kernels<T>()) {
    tiles = (p.m + kernels.rows - 1) / kernels.rows;
    panels = (p.n + kernels.columns - 1) / kernels.columns;
    group = p.chunks * tiles * panels / 64;
    group = group < 1 ? 1 : group > 8 ? 8 : group;
    groups = (tiles + group - 1) / group;
  }
  int64_t items() const { return p.chunks * groups * panels; }
  int64_t panel_elements() const { return (p.k < p.total_k ? p.k : p.total_k) * kernels.columns; }
  int64_t columns(int64_t panel) const {
    int64_t left = p.n - panel * kernels.columns;
    return left < kernels.columns ? left : kernels.columns;
  }
};

constexpr std::align_val_t cache_line{64};

// What one thread does of a product: items ascend, so that a chunk's panels are packed once and stay in its cache.
template <class T> class Share {
  const Grid<T>& grid;
  struct Free {
    void operator()(T* at) const { ::operator delete(at, cache_line); }
  };
  std::unique_ptr<T, Free> packed;
  std::vector<bool> ready;
  int64_t chunk = -1;

  const T* panel_of(int64_t panel) {
    const Product<T>& p = grid.p;
    T* to = packed.get() + panel * grid.panel_elements();
    if (!ready[panel])
      grid.kernels.pack({p.b + chunk * p.b_chunk + panel * grid.kernels.columns * p.b_column, to, p.b_k, p.b_column,
                         p.depth(chunk), grid.columns(panel)});
    ready[panel] = true;
    return to;
  }

 public:
  explicit Share(const Grid<T>& of) : grid(of), packed(static_cast<T*>(::operator new(sizeof(T) * of.panels * of.panel_elements(), cache_line))), ready(of.panels) {}

  void operator()(int64_t item) {
    const Product<T>& p = grid.p;
    int64_t panel = item % grid.panels, first = item / grid.panels % grid.groups * grid.group;
    if (chunk != item / grid.panels / grid.groups) ready.assign(grid.panels, false);
    chunk = item / grid.panels / grid.groups;
    Tile<T> tile{nullptr, panel_of(panel), p.bias ? p.bias + panel * grid.kernels.columns : nullptr, nullptr, p.a_row,
                 p.a_k, grid.kernels.columns, p.depth(chunk), p.n, grid.columns(panel)};
    for (int64_t t = first; t < first + grid.group && t < grid.tiles; ++t) {
      int64_t row = p.m * t / grid.tiles;
      tile.a = p.a + chunk * p.a_chunk + row * p.a_row;
      tile.c = p.c + (chunk * p.m + row) * p.n + panel * grid.kernels.columns;
      grid.kernels.of[p.m * (t + 1) / grid.tiles - row - 1](tile);
    }
  }
};

struct Linalg : Cpu {
  static constexpr int sum_lanes = 64;
  template <class T> static void product(const Tensor&, Product<T> p) {
    if (p.n == 1) return column(p);
    multiply(p);
  }

  // c of one column is a row of b^T a^T, so that vectors run over its rows.
  template <class T> static void column(const Product<T>& p) {
    Product<T> row = p;
    row.a = p.b, row.a_chunk = p.b_chunk, row.a_row = p.b_column, row.a_k = p.b_k, row.m = 1;
    row.b = p.a, row.b_chunk = p.a_chunk, row.b_column = p.a_row, row.b_k = p.a_k, row.n = p.m;
    row.bias = nullptr;
    multiply(row);
    if (p.bias)
      for (int64_t i = 0; i < p.chunks * p.m; ++i) p.c[i] = p.c[i] + p.bias[0];
  }

  template <class T> static void multiply(const Product<T>& p) {
    Grid<T> grid(p);
    int64_t work = grid.group * grid.kernels.rows * grid.kernels.columns * (p.k + 16);
    torch::stable::parallel_for(0, grid.items(), 1 + 65536 / work, [&](int64_t begin, int64_t end) {
      Share<T> share(grid);
      for (int64_t item = begin; item < end; ++item) share(item);
    });
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
