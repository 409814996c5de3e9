// Norms, Adam, target copies and mean losses: plain roundings, one order of addition.
#pragma once
#include "check.h"
#include "chunks.h"
#include "portable.h"

namespace fox {
constexpr int64_t max_groups = 64, norm_chunk = 256;

// Groups of weights laid end to end, as bounds that travel by value to a kernel.
struct Groups {
  int64_t count;
  int64_t bound[max_groups + 1];
  FOX_HD int64_t chunks(int64_t g, int64_t size = norm_chunk) const {
    return (bound[g + 1] - bound[g] + size - 1) / size;
  }
  // Of the groups before g; of all of them before g = count.
  FOX_HD int64_t chunks_before(int64_t g, int64_t size = norm_chunk) const {
    int64_t before = 0;
    for (int64_t other = 0; other < g; ++other) before += chunks(other, size);
    return before;
  }
  struct Chunk {
    int64_t group, begin, end;
  };
  // Chunks are counted through, each group from its start.
  FOX_HD Chunk chunk(int64_t i, int64_t size = norm_chunk) const {
    int64_t g = 0;
    while (i >= chunks(g, size)) i -= chunks(g++, size);
    int64_t begin = bound[g] + i * size;
    return {g, begin, begin + size < bound[g + 1] ? begin + size : bound[g + 1]};
  }
};

inline Groups groups_of(const std::vector<int64_t>& offsets, int64_t weights) {
  int64_t count = static_cast<int64_t>(offsets.size()) - 1;
  FOX_CHECK(count >= 1 && count <= max_groups, "offsets must bound 1 to ", max_groups, " groups, got ", count);
  FOX_CHECK(offsets[0] == 0 && offsets[count] == weights, "offsets must run from 0 to ", weights);
  Groups groups{count, {}};
  for (int64_t g = 0; g <= count; ++g) {
    FOX_CHECK(g == 0 || offsets[g - 1] <= offsets[g], "offsets must not decrease");
    groups.bound[g] = offsets[g];
  }
  return groups;
}

// Sum of squares of one chunk of one group, chunks counted from the group's start: sum = fma(x, x, sum), ascending.
struct SquaresOfChunk {
  const float* x;
  float* sums;
  Groups groups;
  FOX_HD static float sum_of(const float* of, int64_t size) {
    float sum = 0.f;
    FOX_WALK
    for (int64_t e = 0; e < size; ++e) sum = px::fma(of[e], of[e], sum);
    return sum;
  }
  FOX_HD void operator()(int64_t i) const {
    Groups::Chunk at = groups.chunk(i);
    sums[i] = sum_of(x + at.begin, at.end - at.begin);
  }
};

// Root of a group's chunk sums, ascending.
struct NormOfGroup {
  const float* sums;
  float* norm;
  Groups groups;
  FOX_HD static float add(float sum, const float* more, int64_t size) {
    FOX_WALK
    for (int64_t i = 0; i < size; ++i) sum = sum + more[i];
    return sum;
  }
  FOX_HD void operator()(int64_t g) const { norm[g] = px::sqrt(add(0.f, sums + groups.chunks_before(g), groups.chunks(g))); }
};

template <class On> Tensor group_norm(Tensor x, std::vector<int64_t> offsets) {
  FOX_CHECK(x.dim() == 1, "group_norm takes a 1-D tensor");
  Groups groups = groups_of(offsets, x.size(0));
  int64_t chunks = groups.chunks_before(groups.count);
  Tensor sums = make<float>(x, {chunks}), norm = make<float>(x, {groups.count});
  On::rows(x, chunks, 64, SquaresOfChunk{in<float>(x, "x", {x.size(0)}), out<float>(sums), groups});
  On::rows(x, groups.count, groups.count, NormOfGroup{out<float>(sums), out<float>(norm), groups});
  return norm;
}

// The running products beta_1^t and beta_2^t, before the weights read them.
struct AdvanceBeta {
  float* beta;
  FOX_HD void operator()(int64_t) const {
    beta[0] = px::one_nan(beta[0] * 0.9f);
    beta[1] = px::one_nan(beta[1] * 0.999f);
  }
};

// `Span` weights of one group, every operation rounded apart, in this order:
//   scale = norm > 1 ? 1 / norm : 1;  g = grad scale;  m = 0.9 m + 0.1 g;  v = 0.999 v + (0.001 g) g
//   m^ = m / (1 - beta_1^t);  v^ = v / (1 - beta_2^t);  w = w - (lr m^) / (sqrt(v^) + 1e-8), lr = 3e-4 isv[0]
template <int64_t Span> struct AdamWeights {
  float* w;
  const float* grad;
  float *m, *v;
  const float *beta, *norms, *isv;
  Groups groups;
  FOX_HD void operator()(int64_t i) const {
    Groups::Chunk at = groups.chunk(i, Span);
    float norm = norms[at.group], scale = px::select(norm > 1.f, 1.f / norm, 1.f), rate = 3e-4f * isv[0];
    float left_1 = 1.f - beta[0], left_2 = 1.f - beta[1];
    int64_t size = at.end - at.begin;
    float *__restrict w_ = w + at.begin, *__restrict m_ = m + at.begin, *__restrict v_ = v + at.begin;
    const float* __restrict grad_ = grad + at.begin;
    for (int64_t e = 0; e < size; ++e) {
      float g = grad_[e] * scale;
      float mean = px::one_nan(0.9f * m_[e] + 0.1f * g);
      float square = px::one_nan(0.999f * v_[e] + 0.001f * g * g);
      m_[e] = mean;
      v_[e] = square;
      w_[e] = px::one_nan(w_[e] - rate * (mean / left_1) / (px::sqrt(square / left_2) + 1e-8f));
    }
  }
};

template <class On>
void adam(Tensor w, Tensor grad, Tensor m, Tensor v, Tensor beta, Tensor norm, std::vector<int64_t> offsets, Tensor isv) {
  FOX_CHECK(w.dim() == 1, "adam takes 1-D weights");
  int64_t weights = w.size(0);
  Groups groups = groups_of(offsets, weights);
  AdamWeights<On::span> all{
      inout<float>(w, "w", {weights}),   in<float>(grad, "grad", {weights}),      inout<float>(m, "m", {weights}),
      inout<float>(v, "v", {weights}),   inout<float>(beta, "beta", {2}),         in<float>(norm, "norm", {groups.count}),
      in<float>(isv, "isv", {16}),       groups};
  On::rows(w, 1, 1, AdvanceBeta{inout<float>(beta, "beta", {2})});
  On::rows(w, groups.chunks_before(groups.count, On::span), 16, all);
}

struct PolyakWeight {
  float* target;
  const float* source;
  FOX_HD void operator()(int64_t i) const { target[i] = px::one_nan(0.995f * target[i] + 0.005f * source[i]); }
};

template <class On> void polyak(Tensor target, Tensor source) {
  FOX_CHECK(target.dim() == 1, "polyak takes 1-D tensors");
  int64_t n = target.size(0);
  On::rows(target, n, 32768, PolyakWeight{inout<float>(target, "target", {n}), in<float>(source, "source", {n})});
}

// A product is rounded before it is added.
struct MeanLoss {
  const float *row_loss, *weight;
  const int32_t* label;
  float* mean;
  int64_t rows;
  struct Part {
    float sum;
    int64_t labelled;
  };
  FOX_HD Part part(int64_t begin, int64_t end) const {
    Part part{0.f, 0};
    FOX_WALK
    for (int64_t b = begin; b < end; ++b) {
      part.sum = part.sum + (weight ? row_loss[b] * weight[b] : row_loss[b]);
      part.labelled += label && label[b] >= 0;
    }
    return part;
  }
  FOX_HD static Part add(Part a, Part b) { return {a.sum + b.sum, a.labelled + b.labelled}; }
  FOX_HD void finish(Part total) const {
    int64_t count = label ? (total.labelled > 1 ? total.labelled : 1) : rows;
    *mean = px::one_nan(total.sum / static_cast<float>(count));
  }
  FOX_HD void operator()(int64_t) const { in_chunks(*this); }
};

template <class On> Tensor mean_loss(Tensor row_loss, std::optional<Tensor> weight, std::optional<Tensor> label) {
  FOX_CHECK(row_loss.dim() == 1 && row_loss.size(0) > 0, "mean_loss takes a 1-D tensor of at least one row");
  int64_t rows = row_loss.size(0);
  Tensor mean = make<float>(row_loss, {});
  On::rows(row_loss, 1, 1,
           MeanLoss{in<float>(row_loss, "row_loss", {rows}), weight ? in<float>(*weight, "weight", {rows}) : nullptr,
                    label ? in<int32_t>(*label, "label", {rows}) : nullptr, out<float>(mean), rows});
  return mean;
}
}  // namespace fox
