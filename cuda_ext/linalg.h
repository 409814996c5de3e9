// Matrix products and sums over rows, each in one order: ascending, one fmaf chain starting at +0.
#pragma once
#include "check.h"
#include "portable.h"

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
