// Specimens on CPU threads. Races go through relaxed atomics: no undefined behaviour, and still no order.
#include "specimens.h"
#include "cpu.h"
#include <torch/csrc/stable/library.h>

#include <atomic>
#include <barrier>
#include <thread>

namespace fox {
namespace {
constexpr int64_t racers = 8;

// Calls work(p) for p in [0, count) on threads of their own, which start together and wait for none after that.
template <class Work> void race(int64_t count, Work work) {
  std::barrier start(count);
  std::vector<std::jthread> threads;
  for (int64_t p = 0; p < count; ++p)
    threads.emplace_back([&start, &work, p] {
      start.arrive_and_wait();
      work(p);
    });
}

template <class T> T load(T& x) { return std::atomic_ref(x).load(std::memory_order_relaxed); }
template <class T> void store(T& x, T value) { std::atomic_ref(x).store(value, std::memory_order_relaxed); }

struct SplitPart {  // the product of one part of the rows
  Product<float> p;
  float* partial;
  FOX_HD void operator()(int64_t part) const {
    for (int64_t r = 0; r < p.depth(part); ++r) {
      const float *a = p.a + part * p.a_chunk + r * p.a_k, *b = p.b + part * p.b_chunk + r * p.b_k;
      for (int64_t i = 0; i < p.m; ++i) {
        float factor = a[i * p.a_row], *to = partial + i * p.n;
#pragma GCC ivdep
        for (int64_t j = 0; j < p.n; ++j) to[j] = px::fma(factor, b[j], to[j]);
      }
    }
  }
};

struct Specimens : Cpu {
  // Thread p takes the quantiles i = p mod racers of every row; the thread of quantile 0 stores the next state.
  static void quantiles(const Tensor&, RacyQuantile row) {
    race(racers, [&](int64_t p) {
      for (int64_t b = 0; b < row.batch; ++b)
        for (int64_t i = p; i < row.quantiles; i += racers) {
          uint32_t state = load(row.prng[b]);
          row.write(b, i, state, 0, 1);
          if (i == 0) store(row.prng[b], row.advanced(state));
        }
    });
  }

  // Thread p takes the nodes i = p mod racers of every level and goes on to the next one without waiting.
  static void rebuild(const Tensor&, PerNode node) {
    node.tree[0] = 0.f;
    float* leaf = const_cast<float*>(node.leaf);  // an atomic_ref reads through a pointer that could write
    race(racers, [&](int64_t p) {
      for (int64_t first = node.slots / 2; first >= 1; first /= 2) {
        for (int64_t i = first + p; i < 2 * first; i += racers) {
          float* children = 2 * i < node.slots ? node.tree + 2 * i : leaf + (2 * i - node.slots);
          store(node.tree[i], one_nan(load(children[0]) + load(children[1])));
        }
        std::atomic_thread_fence(std::memory_order_seq_cst);
      }
    });
  }

  // Each part is one thread, which adds its product to the output when it has it.
  static void split(const Tensor& like, Tensor& out, Product<float> p) {
    int64_t size = p.m * p.n;
    Tensor partial = torch::stable::new_zeros(like, {p.chunks * size});
    float *from = fox::out<float>(partial), *to = fox::out<float>(out);
    for (int64_t e = 0; e < size; ++e) to[e] = 0.f;
    race(p.chunks, [&](int64_t part) {
      float* mine = from + part * size;
      rows_here(part, part + 1, SplitPart{p, mine});
      for (int64_t e = 0; e < size; ++e) std::atomic_ref(to[e]).fetch_add(mine[e], std::memory_order_relaxed);
    });
  }
};
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(foxflow, CPU, m) {
  m.impl("iqn_race", TORCH_BOX(&iqn_race<Specimens>));
  m.impl("per_fence", TORCH_BOX(&per_fence<Specimens>));
  m.impl("splitk_gemm", TORCH_BOX(&splitk_gemm<Specimens>));
}
}  // namespace fox
