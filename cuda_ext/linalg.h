// Matrix products and sums over rows, each in one order: ascending, one fmaf chain starting at +0.
#pragma once
#include "check.h"
#include "portable.h"
#include "ranges.h"

namespace fox {
// c[z,i,j] = sum over k ascending of a[z,i,k] b[z,k,j], then + bias[j]. Strides in elements let one kernel serve
// a b, a b^T and the products of row chunks a^T b, where the last chunk may be shorter.
template <class T> struct Product {
  const T *a, *b, *bias;
  T* c;
  int64_t chunks, m, n, k, total_k;
  int64_t a_chunk, a_row, a_k, b_chunk, b_k, b_column;
  FOX_HD int64_t depth(int64_t chunk) const { return k < total_k - chunk * k ? k : total_k - chunk * k; }
};

// Up to Lanes columns of one chunk of rows: each ascending from +0.
template <class T, int Lanes> struct SumRows {
  const T* a;
  T* out;
  int64_t rows, columns, chunk_rows, blocks;
  FOX_HD void operator()(int64_t i) const {
    int64_t chunk = i / blocks, first = i % blocks * Lanes, begin = chunk * chunk_rows;
    int64_t end = begin + chunk_rows < rows ? begin + chunk_rows : rows;
    if (first + Lanes <= columns) return sum(chunk, first, begin, end, Lanes);
    sum(chunk, first, begin, end, columns - first);
  }
  FOX_HD void sum(int64_t chunk, int64_t first, int64_t begin, int64_t end, int64_t lanes) const {
    T total[Lanes];
    for (int64_t j = 0; j < lanes; ++j) total[j] = T(0);
    for (int64_t r = begin; r < end; ++r)
      for (int64_t j = 0; j < lanes; ++j) total[j] = total[j] + a[r * columns + first + j];
    for (int64_t j = 0; j < lanes; ++j) out[chunk * columns + first + j] = total[j];
  }
};

template <class On, class T> Tensor sum_rows_as(const Tensor& a, int64_t chunk_rows) {
  constexpr int lanes = On::sum_lanes;
  int64_t rows = a.size(0), columns = a.size(1), chunks = (rows + chunk_rows - 1) / chunk_rows;
  int64_t blocks = (columns + lanes - 1) / lanes;
  Tensor result = make<T>(a, {chunks, columns});
  On::rows(a, chunks * blocks, 1 + 16384 / (lanes * (chunk_rows < rows ? chunk_rows : rows + 1)),
           SumRows<T, lanes>{in<T>(a, "a", {rows, columns}), out<T>(result), rows, columns, chunk_rows, blocks});
  return result;
}
template <class On> Tensor sum_rows(Tensor a, int64_t chunk_rows) {
  FOX_CHECK(a.dim() == 2 && chunk_rows > 0, "sum_rows takes a 2-D tensor and a positive chunk_rows");
  return is_double(a) ? sum_rows_as<On, double>(a, chunk_rows) : sum_rows_as<On, float>(a, chunk_rows);
}

// Parts of rows, each summed to one row, and these end to end.
constexpr int64_t parts_at_most = 64;

struct RowsOfPart {
  const float* from;
  float* to;
  int64_t rows, columns, first;  // its first span
};

struct TotalSpan {  // some columns of one of the parts, each ascending from +0
  static constexpr int64_t columns = 256, lanes = 64;
  RowsOfPart all[parts_at_most];
  int64_t count;
  FOX_HD void operator()(int64_t i) const {
    const RowsOfPart& of = all[range_of(all, count, i)];
    int64_t begin = (i - of.first) * columns, end = begin + columns < of.columns ? begin + columns : of.columns;
    for (; begin + lanes <= end; begin += lanes) sum(of, begin, lanes);
    if (begin < end) sum(of, begin, end - begin);
  }
  FOX_HD static void sum(const RowsOfPart& of, int64_t first, int64_t size) {
    float total[lanes];
    for (int64_t j = 0; j < size; ++j) total[j] = 0.f;
    for (int64_t r = 0; r < of.rows; ++r)
      for (int64_t j = 0; j < size; ++j) total[j] = total[j] + of.from[r * of.columns + first + j];
    for (int64_t j = 0; j < size; ++j) of.to[first + j] = px::one_nan(total[j]);
  }
};

template <class On> void total_rows(Tensor out, std::vector<Tensor> parts) {
  int64_t count = static_cast<int64_t>(parts.size()), spans = 0, filled = 0;
  FOX_CHECK(1 <= count && count <= parts_at_most, "total_rows takes 1 to ", parts_at_most, " parts");
  float* to = inout<float>(out, "out", {out.numel()});
  TotalSpan span{{}, count};
  for (int64_t i = 0; i < count; ++i) {
    FOX_CHECK(parts[i].dim() == 2 && parts[i].device() == out.device(), "a part must be 2-D, on the device of out");
    int64_t rows = parts[i].size(0), columns = parts[i].size(1);
    FOX_CHECK(filled + columns <= out.numel(), "out must have an element for each column of each part");
    span.all[i] = RowsOfPart{in<float>(parts[i], "a part", {rows, columns}), to + filled, rows, columns, spans};
    spans += (columns + TotalSpan::columns - 1) / TotalSpan::columns;
    filled += columns;
  }
  FOX_CHECK(filled == out.numel(), "out must have an element for each column of each part");
  On::rows(out, spans, 4, span);
}

template <class On, class T> Tensor matmul_as(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias) {
  int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  const T* bias_pointer = bias.has_value() ? in<T>(*bias, "bias", {n}) : nullptr;
  Tensor c = make<T>(a, {m, n});
  On::product(a, Product<T>{in<T>(a, "a", {m, k}), in<T>(b, "b", {k, n}), bias_pointer, out<T>(c), 1, m, n, k, k,
                            0, k, 1, 0, n, 1});
  return c;
}
template <class On> Tensor matmul(Tensor a, Tensor b, std::optional<Tensor> bias) {
  FOX_CHECK(a.dim() == 2 && b.dim() == 2, "matmul takes 2-D tensors");
  return is_double(a) ? matmul_as<On, double>(a, b, bias) : matmul_as<On, float>(a, b, bias);
}

template <class On, class T> Tensor matmul_nt_as(const Tensor& a, const Tensor& b) {
  int64_t m = a.size(0), k = a.size(1), n = b.size(0);
  Tensor c = make<T>(a, {m, n});
  On::product(a, Product<T>{in<T>(a, "a", {m, k}), in<T>(b, "b", {n, k}), nullptr, out<T>(c), 1, m, n, k, k,
                            0, k, 1, 0, 1, k});
  return c;
}
template <class On> Tensor matmul_nt(Tensor a, Tensor b) {
  FOX_CHECK(a.dim() == 2 && b.dim() == 2, "matmul_nt takes 2-D tensors");
  return is_double(a) ? matmul_nt_as<On, double>(a, b) : matmul_nt_as<On, float>(a, b);
}

template <class On, class T> Tensor matmul_rows_as(const Tensor& a, const Tensor& b, int64_t chunk_rows) {
  int64_t rows = a.size(0), m = a.size(1), n = b.size(1), chunks = (rows + chunk_rows - 1) / chunk_rows;
  Tensor c = make<T>(a, {chunks, m, n});
  On::product(a, Product<T>{in<T>(a, "a", {rows, m}), in<T>(b, "b", {rows, n}), nullptr, out<T>(c), chunks, m, n,
                            chunk_rows, rows, chunk_rows * m, 1, m, chunk_rows * n, n, 1});
  return c;
}
template <class On> Tensor matmul_rows(Tensor a, Tensor b, int64_t chunk_rows) {
  FOX_CHECK(a.dim() == 2 && b.dim() == 2 && chunk_rows > 0, "matmul_rows takes 2-D tensors and a positive chunk_rows");
  return is_double(a) ? matmul_rows_as<On, double>(a, b, chunk_rows) : matmul_rows_as<On, float>(a, b, chunk_rows);
}
}  // namespace fox
