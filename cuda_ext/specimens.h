// Specimens: what their kernels compute, were they not racing. Each is a bug that trainers had; docs/trainer.md lists them.
#pragma once
#include "iqn.h"
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
}  // namespace fox
