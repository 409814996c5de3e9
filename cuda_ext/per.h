// Prioritised replay: a leaf p^0.6 a slot, sums of pairs above them, stratified draws from the root down.
// NaN leaves (a diverged loss) stay NaN with one payload.
#pragma once
#include "check.h"
#include "portable.h"
#include "prng.h"
#include "ring.h"
#include <tuple>

namespace fox {
FOX_HD float one_nan(float x) { return x == x ? x : px::from_bits(0x7FC00000u); }
FOX_HD float leaf_of(float priority) { return px::pow(priority, 0.6f); }

inline void check_slots(int64_t slots) {
  FOX_CHECK(slots >= 2 && (slots & (slots - 1)) == 0, "slots must be a power of two, at least 2, got ", slots);
}

struct PerInsertRow {
  const float* max_prio;
  const int64_t* step;
  float* leaf;
  int64_t rows, turns;
  FOX_HD void operator()(int64_t i) const { leaf[turn_of(*step, turns) * rows + i] = leaf_of(*max_prio); }
};

template <class On> void per_insert(Tensor leaf, Tensor step, int64_t rows, Tensor max_prio) {
  int64_t slots = leaf.size(0);
  check_slots(slots);
  FOX_CHECK(rows > 0 && slots % rows == 0, "the ring must have a multiple of ", rows, " slots, got ", slots);
  On::rows(leaf, rows, 4096,
           PerInsertRow{in<float>(max_prio, "max_prio", {}), in<int64_t>(step, "step", {}),
                        inout<float>(leaf, "leaf", {slots}), rows, slots / rows});
}

struct PerUpdateRow {  // one drawn row; the row after the last keeps the largest priority
  const int32_t* idx;
  const float* row_loss;
  float *leaf, *max_prio;
  int64_t batch, slots;
  FOX_HD void operator()(int64_t b) const {
    if (b == batch) return keep(largest_of(*max_prio, 0, 1));
    if (!drawn_before(b, 0, 1)) write(b);
  }
  // Whether a row from `first` on, every `stride`th, drew the slot of b before it: then that row writes.
  FOX_HD bool drawn_before(int64_t b, int64_t first, int64_t stride) const {
    int32_t slot = idx[b];
    bool found = false;
    FOX_WALK
    for (int64_t lower = first; lower < b; lower += stride) found |= idx[lower] == slot;
    return found;
  }
  FOX_HD void write(int64_t b) const {
    int32_t slot = idx[b];
    if (slot >= 0 && slot < slots) leaf[slot] = leaf_of(priority(b));
  }
  FOX_HD float priority(int64_t b) const { return row_loss[b] + 1e-6f; }
  FOX_HD static float larger(float largest, float x) { return x > largest ? x : largest; }  // NaN never is
  FOX_HD float largest_of(float largest, int64_t first, int64_t stride) const {
    FOX_WALK
    for (int64_t b = first; b < batch; b += stride) largest = larger(largest, priority(b));
    return largest;
  }
  FOX_HD void keep(float largest) const { *max_prio = largest; }
};

template <class On> void per_update(Tensor leaf, Tensor max_prio, Tensor idx, Tensor row_loss) {
  int64_t slots = leaf.size(0), batch = idx.size(0);
  check_slots(slots);
  On::rows(leaf, batch + 1, 512,
           PerUpdateRow{in<int32_t>(idx, "idx", {batch}), in<float>(row_loss, "row_loss", {batch}),
                        inout<float>(leaf, "leaf", {slots}), inout<float>(max_prio, "max_prio", {}), batch, slots});
}

struct PerNode {  // inner node i of 1 .. slots - 1 has the children 2i and 2i + 1; those from `slots` on are leaves
  const float* leaf;
  float* tree;
  int64_t slots;
  FOX_HD void operator()(int64_t i) const {
    int64_t left = 2 * i;
    const float* children = left < slots ? tree + left : leaf + (left - slots);
    tree[i] = one_nan(children[0] + children[1]);
  }
};

template <class On> void per_rebuild(Tensor leaf, Tensor tree) {
  int64_t slots = leaf.size(0);
  check_slots(slots);
  On::rebuild(leaf, PerNode{in<float>(leaf, "leaf", {slots}), inout<float>(tree, "tree", {slots}), slots});
}

struct PerDraw {
  const float *leaf, *tree, *isv;
  const uint32_t* prng;
  const int64_t* len;
  int32_t* idx;
  float* weight;
  int64_t batch, slots;
  // u = (b + xi) / B * root, then down; returns the weight before the division by the largest.
  FOX_HD float draw(int64_t b) const {
    float xi = (static_cast<float>(xorshift32(prng[b]) >> 9) + 0.5f) * 1.1920928955078125e-7f;
    float root = tree[1], u = (static_cast<float>(b) + xi) / static_cast<float>(batch) * root;
    int64_t node = 1;
    while (node < slots) {
      int64_t left = 2 * node;
      const float* children = left < slots ? tree + left : leaf + (left - slots);
      bool go_left = u < children[0] || children[1] == 0.f;
      u = go_left ? u : u - children[0];
      node = go_left ? left : left + 1;
    }
    idx[b] = static_cast<int32_t>(node - slots);
    weight[b] = px::pow(static_cast<float>(*len) * leaf[node - slots] / root, -isv[3]);
    return weight[b];
  }
  // NaN and infinity never become the largest.
  FOX_HD static float larger(float largest, float x) { return x > largest && x <= 3.40282347e38f ? x : largest; }
  FOX_HD void divide(int64_t b, float largest) const { weight[b] = one_nan(weight[b] / largest); }
};

template <class On>
std::tuple<Tensor, Tensor> per_sample(Tensor leaf, Tensor tree, Tensor prng, Tensor isv, Tensor len) {
  int64_t slots = leaf.size(0), batch = prng.size(0);
  check_slots(slots);
  FOX_CHECK(slots <= INT32_MAX, "a slot must fit int32");
  Tensor idx = make<int32_t>(leaf, {batch}), weight = make<float>(leaf, {batch});
  On::draw(leaf, PerDraw{in<float>(leaf, "leaf", {slots}), in<float>(tree, "tree", {slots}), in<float>(isv, "isv", {16}),
                         in<uint32_t>(prng, "prng", {batch}), in<int64_t>(len, "len", {}), out<int32_t>(idx),
                         out<float>(weight), batch, slots});
  return {idx, weight};
}
}  // namespace fox
