// Linear algebra on CPU threads: tiles of c in registers, panels of b packed once a thread, k ascending in each element.
#include "linalg.h"
#include "accumulate.h"
#include "cpu.h"
#include "elementwise.h"
#include "tile_cpu.h"

#include <algorithm>
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
struct Free {
  template <class T> void operator()(T* at) const { ::operator delete(at, cache_line); }
};
template <class T> using Aligned = std::unique_ptr<T, Free>;
template <class T> Aligned<T> aligned(int64_t count) {
  return Aligned<T>(static_cast<T*>(::operator new(sizeof(T) * count, cache_line)));
}

// What one thread does of a product: items ascend, so that a chunk's panels are packed once and stay in its cache.
template <class T> class Share {
  const Grid<T>& grid;
  Aligned<T> packed, packed_a;
  std::vector<bool> ready;
  int64_t chunk = -1, first = -1;

  // Packs this panel and those that the items left need next, side by side: b is read in the order in which it lies.
  void pack_from(int64_t panel, int64_t left) {
    const Product<T>& p = grid.p;
    int64_t last = panel;
    while (last < grid.panels && last - panel < left && !ready[last]) ready[last++] = true;
    const int64_t depth = p.depth(chunk), slice = p.b_column == 1 && last - panel > 1 ? 16 : depth;
    for (int64_t k = 0; k < depth; k += slice)
      for (int64_t at = panel; at < last; ++at)
        grid.kernels.pack({p.b + chunk * p.b_chunk + k * p.b_k + at * grid.kernels.columns * p.b_column,
                           packed.get() + at * grid.panel_elements() + k * grid.kernels.columns, p.b_k, p.b_column,
                           grid.kernels.columns, std::min(slice, depth - k), grid.columns(at)});
  }

  // Rows of a that lie as columns fall on few lines of the cache: several panels read a copy, a step of k in one
  // vector, at least as wide as a tile is high. The last tiles' vectors begin before their rows, to end with a's.
  bool copies_a() const { return grid.p.a_row == 1 && grid.p.k >= 64 && grid.panels > 1 && grid.p.m >= lanes(); }
  int64_t lanes() const { return grid.kernels.columns / 2; }
  int64_t tile_elements() const { return grid.panel_elements() / 2; }
  int64_t row(int64_t tile) const { return grid.p.m * tile / grid.tiles; }
  int64_t vector_row(int64_t tile) const { return std::min(row(tile), grid.p.m - lanes()); }
  int64_t end() const { return std::min(first + grid.group, grid.tiles); }

  void copy_a() {
    const Product<T>& p = grid.p;
    constexpr int64_t slice = 16;
    for (int64_t k = 0; k < p.depth(chunk); k += slice)
      for (int64_t t = first; t < end(); ++t)
        grid.kernels.pack({p.a + chunk * p.a_chunk + vector_row(t) + k * p.a_k,
                           packed_a.get() + (t - first) * tile_elements() + k * lanes(), p.a_k, 1, lanes(),
                           std::min(slice, p.depth(chunk) - k), lanes()});
  }

  const T* a_of(int64_t tile) const {
    if (!copies_a()) return grid.p.a + chunk * grid.p.a_chunk + row(tile) * grid.p.a_row;
    return packed_a.get() + (tile - first) * tile_elements() + row(tile) - vector_row(tile);
  }

  void enter(int64_t next_chunk, int64_t next_first) {
    if (chunk == next_chunk && first == next_first) return;
    if (chunk != next_chunk) ready.assign(grid.panels, false);
    chunk = next_chunk, first = next_first;
    if (copies_a()) copy_a();
  }

 public:
  explicit Share(const Grid<T>& of)
      : grid(of),
        packed(aligned<T>(of.panels * of.panel_elements())),
        packed_a(aligned<T>(copies_a() ? of.group * tile_elements() : 0)),
        ready(of.panels) {}

  // One item; so many are left, itself among them.
  void operator()(int64_t item, int64_t left) {
    const Product<T>& p = grid.p;
    const int64_t panel = item % grid.panels, group = item / grid.panels;
    enter(group / grid.groups, group % grid.groups * grid.group);
    if (!ready[panel]) pack_from(panel, left);
    const T* b = packed.get() + panel * grid.panel_elements();
    const T* bias = p.bias ? p.bias + panel * grid.kernels.columns : nullptr;
    Tile<T> tile{nullptr, b, bias, nullptr, p.a_row, copies_a() ? lanes() : p.a_k, grid.kernels.columns,
                 p.depth(chunk), p.n, grid.columns(panel)};
    for (int64_t t = first; t < end(); ++t) {
      tile.a = a_of(t);
      tile.c = p.c + (chunk * p.m + row(t)) * p.n + panel * grid.kernels.columns;
      grid.kernels.of[row(t + 1) - row(t) - 1](tile);
    }
  }
};

struct Linalg : Cpu {
  static constexpr int sum_lanes = 64;
  static int64_t span(int64_t size) { return size; }
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
      for (int64_t item = begin; item < end; ++item) share(item, end - item);
    });
  }
};
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(foxflow, CPU, m) {
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
