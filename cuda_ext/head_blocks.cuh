// The heads' rows on the GPU: a block a batch row, its numbers in shared memory, a thread a chain.
#pragma once
#include "iqn_loss.h"
#include "label_losses.h"
#include "launch.cuh"
#include "losses.h"
#include "staging.cuh"
#include "targets.h"

namespace fox {
constexpr unsigned head_threads = 128;

// Rows of logits side by side in shared memory, and what softmax.h finds in each.
template <class T> struct SoftmaxRows {
  T *e, *max, *sum;
  int rows, size;
  __device__ SoftmaxRows(T* shared, int rows, int size)
      : e(shared), max(shared + rows * size), sum(max + rows), rows(rows), size(size) {}
  __device__ T p(int row, int j) const { return e[row * size + j] / sum[row]; }
  __device__ T* end() const { return sum + rows; }

  // Reads `x`; leaves exp(x - max), the maxima and the sums for all threads.
  __device__ void take(const T* x) const {
    for (int i = threadIdx.x; i < rows * size; i += blockDim.x) e[i] = x[i];
    __syncthreads();
    for (int r = threadIdx.x; r < rows; r += blockDim.x) max[r] = largest(e + r * size, size);
    __syncthreads();
    for (int i = threadIdx.x; i < rows * size; i += blockDim.x) e[i] = px::exp(e[i] - max[i / size]);
    __syncthreads();
    for (int r = threadIdx.x; r < rows; r += blockDim.x) {
      T total = T(0);
#pragma unroll 8
      for (int j = 0; j < size; ++j) total = total + e[r * size + j];
      sum[r] = total;
    }
    __syncthreads();
  }
  // Elements of T in shared memory: these, and `more`.
  static int64_t elements(int64_t rows, int64_t size, int64_t more) { return rows * (size + 2) + more; }
};

// The first of the largest means, by all threads; `means` are in shared memory.
inline __device__ int greedy_of(const float* means, int actions) {
  int best = 0;
  for (int a = 1; a < actions; ++a) best = larger(means[a], means[best]) ? a : best;
  return best;
}

// An atom of the target sums what the atoms j give it, j ascending.
static __global__ void __launch_bounds__(head_threads) c51_target_kernel(C51Target of) {
  const int64_t b = blockIdx.x;
  const int actions = of.actions, atoms = of.atoms;
  SoftmaxRows<float> softmax(shared_memory<float>(), actions, atoms);
  float *means = softmax.end(), *p = means + actions, *up = p + atoms;
  int* low = reinterpret_cast<int*>(up + atoms);
  softmax.take(of.logits + b * actions * atoms);
  for (int i = threadIdx.x; i < actions * atoms; i += blockDim.x) softmax.e[i] = softmax.p(i / atoms, i % atoms);
  for (int j = threadIdx.x; j < atoms; j += blockDim.x) {
    C51Target::Place at = of.place(b, j);
    low[j] = static_cast<int>(at.low);
    up[j] = at.up;
  }
  __syncthreads();
  for (int a = threadIdx.x; a < actions; a += blockDim.x) {
    float mean = 0.f;
#pragma unroll 8
    for (int j = 0; j < atoms; ++j) mean = px::fma(softmax.e[a * atoms + j], atom(j, atoms), mean);
    means[a] = mean;
  }
  __syncthreads();
  const float* best = softmax.e + greedy_of(means, actions) * atoms;
  for (int i = threadIdx.x; i < atoms; i += blockDim.x) {
    float mass = 0.f;
    for (int j = 0; j < atoms; ++j) {
      if (low[j] == i) mass = px::fma(best[j], 1.f - up[j], mass);
      else if (low[j] + 1 == i && up[j] > 0.f) mass = px::fma(best[j], up[j], mass);
    }
    of.target[b * atoms + i] = px::one_nan(mass);
  }
}

static __global__ void __launch_bounds__(head_threads) iqn_target_kernel(IqnTarget of) {
  const int64_t b = blockIdx.x;
  const int actions = of.actions, quantiles = of.quantiles;
  float *q = shared_memory<float>(), *means = q + actions * quantiles;
  for (int i = threadIdx.x; i < actions * quantiles; i += blockDim.x) q[i] = of.q[b * actions * quantiles + i];
  __syncthreads();
  for (int a = threadIdx.x; a < actions; a += blockDim.x) means[a] = of.mean(q, a);
  __syncthreads();
  const int best = greedy_of(means, actions);
  for (int i = threadIdx.x; i < quantiles; i += blockDim.x)
    of.target[b * quantiles + i] = px::one_nan(of.equation(b, q[i * actions + best]));
}

template <class T> __global__ void __launch_bounds__(head_threads) c51_loss_kernel(C51Loss<T> of) {
  const int64_t b = blockIdx.x, a = of.action[b];
  const int size = of.actions * of.atoms, atoms = of.atoms;
  const bool valid = a >= 0 && a < of.actions;
  T* grad = of.grad + b * size;
  for (int i = threadIdx.x; i < size; i += blockDim.x)
    if (!valid || i / atoms != a) grad[i] = valid ? T(0) : T(px::nan_bits());
  if (threadIdx.x == 0 && !valid) of.row_loss[b] = T(px::nan_bits());
  if (!valid) return;
  SoftmaxRows<T> softmax(shared_memory<T>(), 1, atoms);
  T *mass = softmax.end(), *x = mass + atoms;
  for (int j = threadIdx.x; j < atoms; j += blockDim.x) {
    mass[j] = of.target[b * atoms + j];
    x[j] = of.logits[b * size + a * atoms + j];
  }
  softmax.take(of.logits + b * size + a * atoms);
  for (int j = threadIdx.x; j < atoms; j += blockDim.x) grad[a * atoms + j] = of.gradient(b, softmax.p(0, j), mass[j]);
  if (threadIdx.x == 0)
    of.row_loss[b] = of.loss(x, mass, Softmax<T>{softmax.max[0], softmax.sum[0], px::log(softmax.sum[0])});
}

// Every horizon's row whether labelled or not; what has no label is overwritten as cross_entropy says.
template <class T> __global__ void __launch_bounds__(head_threads) frd_loss_kernel(FrdLoss<T> of) {
  const int64_t b = blockIdx.x;
  const int horizons = of.horizons, bins = of.bins;
  const int32_t* label = of.label + b * horizons;
  const T* x = of.logits + b * horizons * bins;
  SoftmaxRows<T> softmax(shared_memory<T>(), horizons, bins);
  softmax.take(x);
  for (int i = threadIdx.x; i < horizons * bins; i += blockDim.x) {
    int row = i / bins, j = i % bins;
    T grad = label_gradient(softmax.p(row, j), j == label[row], of.divisor());
    of.grad[b * horizons * bins + i] = is_label(label[row], bins) ? grad : unlabelled<T>(label[row]);
  }
  if (threadIdx.x) return;
  T sum = T(0);
  for (int row = 0; row < horizons; ++row) {
    Softmax<T> found{softmax.max[row], softmax.sum[row], px::log(softmax.sum[row])};
    bool known = is_label(label[row], bins);
    sum = sum + (known ? label_loss(found, x[row * bins + label[row]]) : unlabelled<T>(label[row]));
  }
  of.row_loss[b] = px::one_nan(sum / static_cast<T>(horizons));
}

template <class T> __global__ void __launch_bounds__(head_threads) iqn_loss_kernel(IqnLoss<T> of) {
  const int64_t b = blockIdx.x, a = of.action[b];
  const int quantiles = of.quantiles, actions = of.actions;
  const bool valid = a >= 0 && a < actions;
  T *target = shared_memory<T>(), *losses = target + quantiles, *grad = of.grad + b * quantiles * actions;
  for (int i = threadIdx.x; i < quantiles; i += blockDim.x) target[i] = of.target[b * quantiles + i];
  for (int i = threadIdx.x; i < quantiles * actions; i += blockDim.x)
    if (!valid || i % actions != a) grad[i] = valid ? T(0) : T(px::nan_bits());
  if (threadIdx.x == 0 && !valid) of.row_loss[b] = T(px::nan_bits());
  if (!valid) return;
  __syncthreads();
  for (int i = threadIdx.x; i < quantiles; i += blockDim.x) {
    T mine = of.q[(b * quantiles + i) * actions + a], level = of.tau[b * quantiles + i], loss = T(0), slope = T(0);
#pragma unroll 8
    for (int j = 0; j < quantiles; ++j) of.add(target[j] - mine, level, loss, slope);
    losses[i] = loss / static_cast<T>(quantiles);
    grad[i * actions + a] = of.gradient(b, slope);
  }
  __syncthreads();
  if (threadIdx.x) return;
  T total = T(0);
#pragma unroll 8
  for (int i = 0; i < quantiles; ++i) total = total + losses[i];
  of.row_loss[b] = px::one_nan(total);
}

// Launches a block a batch row, if its `elements` fit shared memory.
template <class T, class Row>
bool launch_blocks(const char* name, void (*kernel)(Row), const Tensor& like, const Row& of, int64_t batch,
                   int64_t elements) {
  size_t bytes = elements * sizeof(T);
  if (bytes > most_shared_bytes) return false;
  launch(name, kernel, {blocks_of(batch, 1), head_threads, bytes}, like, of);
  return true;
}

inline bool staged(const Tensor& like, int64_t batch, const C51Target& of) {
  int64_t elements = SoftmaxRows<float>::elements(of.actions, of.atoms, of.actions + 3 * of.atoms);
  return launch_blocks<float>("c51_target_kernel", c51_target_kernel, like, of, batch, elements);
}
inline bool staged(const Tensor& like, int64_t batch, const IqnTarget& of) {
  return launch_blocks<float>("iqn_target_kernel", iqn_target_kernel, like, of, batch, of.actions * (of.quantiles + 1));
}
template <class T> bool staged(const Tensor& like, int64_t batch, const C51Loss<T>& of) {
  int64_t elements = SoftmaxRows<T>::elements(1, of.atoms, 2 * of.atoms);
  return launch_blocks<T>("c51_loss_kernel", c51_loss_kernel<T>, like, of, batch, elements);
}
template <class T> bool staged(const Tensor& like, int64_t batch, const FrdLoss<T>& of) {
  int64_t elements = SoftmaxRows<T>::elements(of.horizons, of.bins, 0);
  return launch_blocks<T>("frd_loss_kernel", frd_loss_kernel<T>, like, of, batch, elements);
}
template <class T> bool staged(const Tensor& like, int64_t batch, const IqnLoss<T>& of) {
  return launch_blocks<T>("iqn_loss_kernel", iqn_loss_kernel<T>, like, of, batch, 2 * of.quantiles);
}
}  // namespace fox
