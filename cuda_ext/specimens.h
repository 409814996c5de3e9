// Specimens: what their kernels compute, were they not racing. Each is a bug that trainers had; docs/trainer.md lists them.
#pragma once
#include "iqn.h"
#include "learn.h"
#include "linalg.h"
#include "per.h"

#include <tuple>

namespace fox {
// Quantile i of a row from the state that the caller has just read, and the state that it is to store.
struct RacyQuantile {
  uint32_t* prng;
  float *tau, *cos;
  int64_t batch, quantiles, cosines, times;
  FOX_HD uint32_t advanced(uint32_t state) const {
    for (int64_t n = 0; n < times; ++n) state = xorshift32(state);
    return state;
  }
  FOX_HD void write(int64_t b, int64_t i, uint32_t state, int64_t first, int64_t stride) const {
    uint32_t word = quantile_word(state, i);
    int64_t row = b * quantiles + i;
    if (first == 0) tau[row] = unit(word);
    for (int64_t e = first; e < cosines; e += stride) cos[row * cosines + e] = TauCos::cosine(word, e);
  }
};

template <class On>
std::tuple<Tensor, Tensor> iqn_race(Tensor prng, int64_t quantiles, int64_t cosines, int64_t times) {
  FOX_CHECK(prng.dim() == 1 && quantiles > 0 && cosines > 0 && times >= 0, "iqn_race takes a 1-D state and positive sizes");
  int64_t batch = prng.size(0);
  Tensor tau = make<float>(prng, {batch, quantiles}), cos = make<float>(prng, {batch, quantiles, cosines});
  On::quantiles(prng, RacyQuantile{inout<uint32_t>(prng, "prng", {batch}), out<float>(tau), out<float>(cos), batch,
                                   quantiles, cosines, times});
  return {tau, cos};
}

template <class On> void per_fence(Tensor leaf, Tensor tree) {
  int64_t slots = leaf.size(0);
  check_slots(slots);
  On::rebuild(leaf, PerNode{in<float>(leaf, "leaf", {slots}), inout<float>(tree, "tree", {slots}), slots});
}

template <class On> Tensor splitk_gemm(Tensor a, Tensor b, int64_t parts) {
  FOX_CHECK(a.dim() == 2 && b.dim() == 2 && parts > 0, "splitk_gemm takes 2-D tensors and a positive number of parts");
  int64_t rows = a.size(0), m = a.size(1), n = b.size(1), part = (rows + parts - 1) / parts;
  Tensor c = make<float>(a, {1, m, n});
  On::split(a, c, Product<float>{in<float>(a, "a", {rows, m}), in<float>(b, "b", {rows, n}), nullptr, out<float>(c), parts,
                                 m, n, part, rows, part * m, 1, m, part * n, n, 1});
  return c;
}

template <class On> Tensor missing_sync(Tensor a) {
  FOX_CHECK(a.dim() == 2, "missing_sync takes a 2-D tensor");
  int64_t rows = a.size(0), columns = a.size(1);
  Tensor sums = make<float>(a, {1, columns});
  On::unsynced(a, in<float>(a, "a", {rows, columns}), out<float>(sums), rows, columns);
  return sums;
}

template <class On> Tensor float_atomics(Tensor a) {
  FOX_CHECK(a.dim() == 2, "float_atomics takes a 2-D tensor");
  int64_t rows = a.size(0), columns = a.size(1);
  Tensor sums = make<float>(a, {1, columns});
  On::atomics(a, in<float>(a, "a", {rows, columns}), out<float>(sums), rows, columns);
  return sums;
}

template <class On> Tensor wrong_stream(Tensor x, std::vector<int64_t> offsets) {
  FOX_CHECK(x.dim() == 1, "wrong_stream takes a 1-D tensor");
  Groups groups = groups_of(offsets, x.size(0));
  int64_t chunks = groups.chunks_before(groups.count);
  Tensor sums = make<float>(x, {chunks}), norm = make<float>(x, {groups.count});
  On::norms(x, chunks, SquaresOfChunk{in<float>(x, "x", {x.size(0)}), out<float>(sums), groups},
            NormOfGroup{out<float>(sums), out<float>(norm), groups});
  return norm;
}

template <class On> void stale_pinned(Tensor ring, int64_t begin, Tensor rows) {
  int64_t slots = ring.size(0), count = rows.size(0);
  FOX_CHECK(ring.is_contiguous() && rows.is_contiguous() && ring.scalar_type() == rows.scalar_type() &&
                ring.numel() * count == rows.numel() * slots,
            "stale_pinned takes a contiguous ring and rows of its kind");
  FOX_CHECK(0 <= begin && begin + count <= slots, "rows ", begin, " + ", count, " must lie in the ring of ", slots);
  if (count == 0) return;
  int64_t row_bytes = rows.numel() / count * static_cast<int64_t>(rows.element_size());
  On::upload(ring, static_cast<char*>(ring.data_ptr()) + begin * row_bytes, static_cast<const char*>(rows.data_ptr()),
             count * row_bytes);
}
}  // namespace fox
