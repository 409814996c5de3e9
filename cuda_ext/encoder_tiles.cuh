// The encoder's rows as tiles of rows on the GPU.
#pragma once
#include "attention.h"
#include "layer_norm.h"
#include "product.cuh"
#include "row_tiles.cuh"
#include "vsn.h"

namespace fox {
template <class T> struct LayerNormFwdTile {
  using Element = T;
  static constexpr int planes = 1, rounds = 2, walks = 1;
  LayerNormFwd<T, 1> of;
  __device__ void copy(Copies<T> to, int64_t row, int j) const {
    int64_t e = row * of.hidden + j;
    *to.row = of.x[e] + of.residual[e];
  }
  template <int Round> __device__ T walk(int, Copies<T> s, int64_t row) const {
    T sum;
    if constexpr (Round == 0) {
      sum_rows_of<1>(s.row, of.hidden, &sum);
      return sum / static_cast<T>(of.hidden);
    } else {
      dot_rows_of<1>(s.row, s.row, of.hidden, of.hidden, &sum);
      T scale = of.scale_of(sum);
      of.rstd[row] = px::one_nan(scale);
      return scale;
    }
  }
  template <int Round> __device__ void each(Copies<T> s, const T* found, int64_t row, int j) const {
    if constexpr (Round == 0) {
      *s.row = *s.row - found[0];
    } else {
      T n = of.normal(*s.row, found[1]);
      of.norm[row * of.hidden + j] = n;
      of.out[row * of.hidden + j] = of.result(n, j);
    }
  }
};

template <class T> struct LayerNormBwdTile {
  using Element = T;
  static constexpr int planes = 2, rounds = 1, walks = 2;
  LayerNormBwd<T, 1> of;
  __device__ void copy(Copies<T> to, int64_t row, int j) const {
    int64_t e = row * of.hidden + j;
    T grad = of.grad_out[e], n = of.norm[e];
    *to.plane(0) = grad * of.gain[j];
    *to.plane(1) = n;
    of.grad_gain[e] = px::one_nan(grad * n);
  }
  template <int> __device__ T walk(int part, Copies<T> k, int64_t) const {
    T sum;
    if (part == 0) sum_rows_of<1>(k.row, of.hidden, &sum);
    else dot_rows_of<1>(k.row, k.plane(1), of.hidden, of.hidden, &sum);
    return sum / static_cast<T>(of.hidden);
  }
  template <int> __device__ void each(Copies<T> k, const T* found, int64_t row, int j) const {
    of.grad_x[row * of.hidden + j] = of.result(of.rstd[row], *k.row, found[0], *k.plane(1), found[1]);
  }
};

// Softmax in place, then `Then` of each probability.
template <class T, class Then> struct SoftmaxTile {
  using Element = T;
  static constexpr int planes = 1, rounds = 2, walks = 1;
  T* x;
  int64_t size;
  Then then;
  __device__ void copy(Copies<T> to, int64_t row, int j) const { *to.row = x[row * size + j]; }
  template <int Round> __device__ T walk(int, Copies<T> e, int64_t) const {
    T found;
    if constexpr (Round == 0) largest_of_rows<1>(e.row, size, &found);
    else sum_rows_of<1>(e.row, size, &found);
    return found;
  }
  template <int Round> __device__ void each(Copies<T> e, const T* found, int64_t row, int j) const {
    if constexpr (Round == 0) {
      *e.row = px::exp(*e.row - found[0]);
    } else {
      T share = px::one_nan(*e.row / found[1]);
      x[row * size + j] = share;
      then(share, row * size + j);
    }
  }
};

template <class T> struct LetThrough {
  VsnFwd<T, 1> of;
  __device__ void operator()(T gate, int64_t e) const { of.out[e] = of.result(gate, of.x[e]); }
};

template <class T> struct Nothing {
  __device__ void operator()(T, int64_t) const {}
};

template <class T> struct VsnBwdTile {
  using Element = T;
  static constexpr int planes = 2, rounds = 1, walks = 1;
  VsnBwd<T, 1> of;
  __device__ void copy(Copies<T> to, int64_t row, int j) const {
    int64_t e = row * of.features + j;
    *to.plane(0) = of.gate[e];
    *to.plane(1) = of.grad_gate(of.x[e], of.grad_out[e]);
  }
  template <int> __device__ T walk(int, Copies<T> gate, int64_t) const {
    T mean;
    dot_rows_of<1>(gate.row, gate.plane(1), of.features, of.features, &mean);
    return mean;
  }
  template <int> __device__ void each(Copies<T> gate, const T* found, int64_t row, int j) const {
    of.grad_logits[row * of.features + j] = of.result(*gate.row, *gate.plane(1), found[0]);
  }
};

template <class T> struct AttentionDotTile {
  using Element = T;
  static constexpr int planes = 2, rounds = 1, walks = 1;
  AttentionDot<T, 1> of;
  __device__ void copy(Copies<T> to, int64_t row, int j) const {
    *to.plane(0) = of.x[row * of.hidden + j];
    *to.plane(1) = of.y[(of.shared ? 0 : quotient(row, of.steps) * of.hidden) + j];
  }
  template <int> __device__ T walk(int, Copies<T> x, int64_t row) const {
    T dot;
    dot_rows_of<1>(x.row, x.plane(1), 0, of.hidden, &dot);
    of.dots[row] = dot / of.divisor;
    return dot;
  }
  template <int> __device__ void each(Copies<T>, const T*, int64_t, int) const {}
};

template <class T> struct AttentionScoreBwdTile {
  using Element = T;
  static constexpr int planes = 2, rounds = 1, walks = 1;
  AttentionScoreBwd<T, 1> of;
  __device__ void copy(Copies<T> to, int64_t row, int j) const {
    *to.plane(0) = of.alpha[row * of.steps + j];
    *to.plane(1) = of.grad[row * of.steps + j];
  }
  template <int> __device__ T walk(int, Copies<T> alpha, int64_t) const {
    T mean;
    dot_rows_of<1>(alpha.row, alpha.plane(1), of.steps, of.steps, &mean);
    return mean;
  }
  template <int> __device__ void each(Copies<T> alpha, const T* found, int64_t row, int j) const {
    of.grad[row * of.steps + j] = of.result(*alpha.row, *alpha.plane(1), found[0]);
  }
};

template <class T> bool staged(const Tensor& like, int64_t, const LayerNormFwd<T, 1>& of) {
  return launch_tiles(like, LayerNormFwdTile<T>{of}, of.count, of.hidden);
}
template <class T> bool staged(const Tensor& like, int64_t, const LayerNormBwd<T, 1>& of) {
  return launch_tiles(like, LayerNormBwdTile<T>{of}, of.count, of.hidden);
}
template <class T> bool staged(const Tensor& like, int64_t, const VsnFwd<T, 1>& of) {
  int64_t f = of.features;
  launch_product(like, Product<T>{of.x, of.w, of.b, of.gate, 1, of.count, f, f, f, 0, f, 1, 0, f, 1});
  return launch_tiles(like, SoftmaxTile<T, LetThrough<T>>{of.gate, f, {of}}, of.count, f);
}
template <class T> bool staged(const Tensor& like, int64_t, const VsnBwd<T, 1>& of) {
  return launch_tiles(like, VsnBwdTile<T>{of}, of.count, of.features);
}
template <class T> bool staged(const Tensor& like, int64_t, const AttentionDot<T, 1>& of) {
  return launch_tiles(like, AttentionDotTile<T>{of}, of.count, of.hidden);
}
template <class T> bool staged(const Tensor& like, int64_t, const AttentionSoftmax<T, 1>& of) {
  return launch_tiles(like, SoftmaxTile<T, Nothing<T>>{of.alpha, of.steps, {}}, of.count, of.steps);
}
template <class T> bool staged(const Tensor& like, int64_t, const AttentionScoreBwd<T, 1>& of) {
  return launch_tiles(like, AttentionScoreBwdTile<T>{of}, of.count, of.steps);
}
}  // namespace fox
