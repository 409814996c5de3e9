// Sums that are kept over several passes: sum = (0 or sum) + x, element by element, of several tensors at once, or of
// the outer products of rows, which are made on the way and for all passes at once.
#pragma once
#include "check.h"
#include "portable.h"
#include "ranges.h"
#include "row.h"

namespace fox {
constexpr int64_t sums_at_most = 64, passes_at_most = 8;

struct Kept {
  float* sum;
  const float* fresh;
  int64_t size, first;  // its first span
};

struct AddSpan {  // some elements of one of the sums
  static constexpr int64_t elements = 2048;
  Kept all[sums_at_most];
  int64_t count;
  bool begin;
  FOX_HD Kept span(int64_t i) const {
    Kept of = all[range_of(all, count, i)];
    int64_t skipped = (i - of.first) * elements, left = of.size - skipped;
    return {of.sum + skipped, of.fresh + skipped, left < elements ? left : elements, i};
  }
  FOX_HD static float add(float sum, float fresh) { return px::one_nan(sum + fresh); }
  FOX_HD void operator()(int64_t i) const {
    Kept of = span(i);
    float* __restrict sum = of.sum;
    const float* __restrict fresh = of.fresh;
    for (int64_t e = 0; e < of.size; ++e) sum[e] = add(begin ? 0.f : sum[e], fresh[e]);
  }
};

template <class On> void accumulate(std::vector<Tensor> sums, std::vector<Tensor> fresh, bool begin) {
  int64_t count = static_cast<int64_t>(sums.size()), spans = 0;
  FOX_CHECK(1 <= count && count <= sums_at_most && fresh.size() == sums.size(), "accumulate takes 1 to ", sums_at_most,
            " sums and what is added to each");
  AddSpan span{{}, count, begin};
  for (int64_t i = 0; i < count; ++i) {
    Tensor &sum = sums[i], &more = fresh[i];
    FOX_CHECK(sum.scalar_type() == ScalarType::Float && more.scalar_type() == ScalarType::Float, "accumulate adds float32");
    FOX_CHECK(sum.is_contiguous() && more.is_contiguous() && sum.numel() == more.numel(), "a sum and what is added to it"
              " must be contiguous and of one size");
    FOX_CHECK(sum.device() == sums[0].device() && more.device() == sums[0].device(), "all must be on one device");
    span.all[i] = Kept{out<float>(sum), out<float>(more), sum.numel(), spans};
    spans += (sum.numel() + AddSpan::elements - 1) / AddSpan::elements;
  }
  On::rows(sums[0], spans, 16, span);
}

// sum[r,m,n] = (0 or sum) + a[r,m] b[r,n] of each pass, ascending; a row is one n of all, or all of them.
struct AddOuter {
  float* sum;
  const float *a[passes_at_most], *b[passes_at_most];
  int64_t passes, rows, m, n;
  bool begin;
  Spans spans;
  FOX_HD static float add(float sum, float a, float b) { return px::one_nan(sum + px::fma(a, b, 0.f)); }
  FOX_HD void operator()(int64_t i) const {
    int64_t row = spans.row(i), end = spans.end(i);
    float* __restrict to = sum + row * n;
    for (int64_t pass = 0; pass < passes; ++pass) {  // the row stays in the cache
      const float* __restrict from = b[pass] + quotient(row, m) * n;
      float factor = a[pass][row];
      bool fresh = begin && pass == 0;
      FOX_LANES
      for (int64_t j = spans.begin(i); j < end; ++j) to[j] = add(fresh ? 0.f : to[j], factor, from[j]);
    }
  }
};

template <class On> void accumulate_outer(Tensor sum, std::vector<Tensor> a, std::vector<Tensor> b, bool begin) {
  int64_t passes = static_cast<int64_t>(a.size());
  FOX_CHECK(1 <= passes && passes <= passes_at_most && b.size() == a.size(), "accumulate_outer takes the rows of 1 to ",
            passes_at_most, " passes");
  FOX_CHECK(sum.dim() == 3, "a sum of outer products must be 3-D");
  int64_t rows = sum.size(0), m = sum.size(1), n = sum.size(2);
  Spans spans{n, On::span(n)};
  AddOuter add{inout<float>(sum, "sum", {rows, m, n}), {}, {}, passes, rows, m, n, begin, spans};
  for (int64_t pass = 0; pass < passes; ++pass) {
    FOX_CHECK(a[pass].device() == sum.device() && b[pass].device() == sum.device(), "all must be on one device");
    add.a[pass] = in<float>(a[pass], "a", {rows, m});
    add.b[pass] = in<float>(b[pass], "b", {rows, n});
  }
  On::rows(sum, rows * m * spans.per_row(), 256, add);
}
}  // namespace fox
