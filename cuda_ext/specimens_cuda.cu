// Specimens on the GPU: each kernel lacks one barrier, one wait or one order, and is otherwise sound.
#include "specimens.h"
#include "launch.cuh"
#include <torch/csrc/stable/library.h>

#include <cstring>

namespace fox {
namespace {
// So many blocks of the quantile kernel fit a large GPU at once that none starts after another has stored its state;
// this much shared memory for each leaves room for a few, and the rest start late.
constexpr int quantile_shared_bytes = 32 * 1024, most_threads = 1024, most_blocks_y = 65535;

// Every thread reads the state, one of quantile 0 stores the next: who comes after it draws from that one.
__global__ void iqn_tau_cos_and_advance(RacyQuantile row) {
  int64_t b = blockIdx.x, i = blockIdx.y;
  uint32_t state = row.prng[b];
  row.write(b, i, state, threadIdx.x, blockDim.x);
  if (i == 0 && threadIdx.x == 0) row.prng[b] = row.advanced(state);
}

constexpr int fence_blocks = 64, fence_threads = 256;

// The fence orders a thread's own writes and waits for nobody's: a fast block adds sums of the last rebuild.
__global__ void __launch_bounds__(fence_threads) per_rebuild_by_fences(PerNode node) {
  int64_t mine = threadIdx.x * static_cast<int64_t>(gridDim.x) + blockIdx.x, stride = blockDim.x * static_cast<int64_t>(gridDim.x);
  if (mine == 0) node.tree[0] = 0.f;
  for (int64_t first = node.slots / 2; first >= 1; first /= 2) {
    for (int64_t i = mine; i < first; i += stride) node(first + i);
    __threadfence();
  }
}

constexpr int split_side = 16;

// One part of the rows a block; the parts of an element arrive in no order, and float addition minds the order.
__global__ void __launch_bounds__(split_side* split_side) splitk_kernel(Product<float> p) {
  int64_t i = blockIdx.y * static_cast<int64_t>(split_side) + threadIdx.x / split_side;
  int64_t j = blockIdx.x * static_cast<int64_t>(split_side) + threadIdx.x % split_side, part = blockIdx.z;
  if (i >= p.m || j >= p.n) return;
  const float *a = p.a + part * p.a_chunk + i * p.a_row, *b = p.b + part * p.b_chunk + j * p.b_column;
  float sum = 0.f;
  for (int64_t r = 0; r < p.depth(part); ++r) sum = px::fma(a[r * p.a_k], b[r * p.b_k], sum);
  atomicAdd(p.c + i * p.n + j, sum);
}

constexpr int sum_threads = 128, most_sum_blocks = 4096;

// A column's rows summed by a block. Where __syncwarp stands __syncthreads is needed: the tree adds what other warps
// may not have stored yet. Volatile, so that the compiler leaves each access where it is.
__global__ void __launch_bounds__(sum_threads) sum_rows_unsynced(const float* a, float* out, int64_t rows, int64_t columns) {
  __shared__ float sums[sum_threads];
  volatile float* partial = sums;
  int t = threadIdx.x;
  for (int64_t column = blockIdx.x; column < columns; column += gridDim.x) {
    partial[t] = 0.f;
    for (int64_t r = t; r < rows; r += sum_threads) partial[t] = partial[t] + a[r * columns + column];
    __syncwarp();
    for (int half = sum_threads / 2; half >= 1; half /= 2) {
      if (t < half) partial[t] = partial[t] + partial[t + half];
      __syncwarp();
    }
    if (t == 0) out[column] = partial[0];
  }
}

constexpr int atomic_threads = 128, atomic_rows = 32;

// A thread sums its column of some rows, and adds that to the sum of all: in which order, who is done first decides.
__global__ void __launch_bounds__(atomic_threads) sum_rows_by_atomics(const float* a, float* sums, int64_t rows, int64_t columns) {
  const int64_t column = blockIdx.x * static_cast<int64_t>(atomic_threads) + threadIdx.x;
  const int64_t begin = blockIdx.y * static_cast<int64_t>(atomic_rows), left = rows - begin;
  if (column >= columns) return;
  float sum = 0.f;
#pragma unroll
  for (int r = 0; r < atomic_rows; ++r)
    if (r < left) sum = sum + a[(begin + r) * columns + column];
  atomicAdd(sums + column, sum);
}

struct Zero {
  float* x;
  __device__ void operator()(int64_t i) const { x[i] = 0.f; }
};

void check_call(cudaError_t error, const char* call) {
  FOX_CHECK(error == cudaSuccess, call, " failed: ", cudaGetErrorString(error));
}

// A stream beside torch's and two events, kept until the process ends.
struct Side {
  cudaStream_t stream = nullptr;
  cudaEvent_t before = nullptr, after = nullptr;
  Side() {
    check_call(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check_call(cudaEventCreateWithFlags(&before, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    check_call(cudaEventCreateWithFlags(&after, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
};

const Side& side_of(int32_t device) {
  constexpr int32_t most_devices = 64;
  static Side* sides[most_devices] = {};
  FOX_CHECK(0 <= device && device < most_devices, "no side stream for device ", device);
  if (!sides[device]) sides[device] = new Side;
  return *sides[device];
}

template <class Row> void launch_rows(cudaStream_t stream, int64_t n, Row row) {
  constexpr int threads = 64;
  rows_kernel<<<static_cast<unsigned>((n + threads - 1) / threads), threads, 0, stream>>>(n, row);
  check_launch("rows_kernel");
}

struct Specimens : Cuda {
  static void quantiles(const Tensor& like, RacyQuantile row) {
    if (row.batch == 0) return;
    torch::stable::accelerator::DeviceGuard guard(like.get_device_index());
    FOX_CHECK(row.batch <= INT32_MAX && row.quantiles <= most_blocks_y, "too many rows or quantiles for one launch: ",
              row.batch, ", ", row.quantiles);
    dim3 grid(static_cast<unsigned>(row.batch), static_cast<unsigned>(row.quantiles));
    unsigned threads = row.cosines < most_threads ? static_cast<unsigned>(row.cosines) : most_threads;
    iqn_tau_cos_and_advance<<<grid, threads, quantile_shared_bytes, current_stream(like.get_device_index())>>>(row);
    check_launch("iqn_tau_cos_and_advance");
  }

  static void rebuild(const Tensor& like, PerNode node) {
    torch::stable::accelerator::DeviceGuard guard(like.get_device_index());
    per_rebuild_by_fences<<<fence_blocks, fence_threads, 0, current_stream(like.get_device_index())>>>(node);
    check_launch("per_rebuild_by_fences");
  }

  static void split(const Tensor& like, Tensor& out, Product<float> p) {
    torch::stable::accelerator::DeviceGuard guard(like.get_device_index());
    cudaStream_t stream = current_stream(like.get_device_index());
    check_call(cudaMemsetAsync(out.data_ptr(), 0, out.numel() * sizeof(float), stream), "cudaMemsetAsync");
    if (p.m * p.n == 0) return;
    int64_t down = (p.m + split_side - 1) / split_side, across = (p.n + split_side - 1) / split_side;
    FOX_CHECK(p.chunks <= 65535 && down <= 65535 && across <= INT32_MAX, "the product is too large for one launch");
    dim3 grid(static_cast<unsigned>(across), static_cast<unsigned>(down), static_cast<unsigned>(p.chunks));
    splitk_kernel<<<grid, split_side * split_side, 0, stream>>>(p);
    check_launch("splitk_kernel");
  }

  static void unsynced(const Tensor& like, const float* a, float* out, int64_t rows, int64_t columns) {
    if (columns == 0) return;
    torch::stable::accelerator::DeviceGuard guard(like.get_device_index());
    unsigned blocks = static_cast<unsigned>(columns < most_sum_blocks ? columns : most_sum_blocks);
    sum_rows_unsynced<<<blocks, sum_threads, 0, current_stream(like.get_device_index())>>>(a, out, rows, columns);
    check_launch("sum_rows_unsynced");
  }

  static void atomics(const Tensor& like, const float* a, float* sums, int64_t rows, int64_t columns) {
    Cuda::rows(like, columns, 1, Zero{sums});
    const int64_t parts = (rows + atomic_rows - 1) / atomic_rows;
    FOX_CHECK(parts <= 65535, "too many rows for one launch: ", rows);
    if (parts * columns == 0) return;
    dim3 grid(blocks_of(columns, atomic_threads), static_cast<unsigned>(parts));
    launch("sum_rows_by_atomics", sum_rows_by_atomics, {grid, atomic_threads}, like, a, sums, rows, columns);
  }

  // The side stream waits for what came before the squares, a line too early; who reads the norms does wait for them.
  static void norms(const Tensor& like, int64_t chunks, SquaresOfChunk squares, NormOfGroup norm) {
    torch::stable::accelerator::DeviceGuard guard(like.get_device_index());
    cudaStream_t here = current_stream(like.get_device_index());
    const Side& side = side_of(like.get_device_index());
    check_call(cudaEventRecord(side.before, here), "cudaEventRecord");
    if (chunks > 0) launch_rows(here, chunks, squares);
    check_call(cudaStreamWaitEvent(side.stream, side.before, 0), "cudaStreamWaitEvent");
    launch_rows(side.stream, norm.groups.count, norm);
    check_call(cudaEventRecord(side.after, side.stream), "cudaEventRecord");
    check_call(cudaStreamWaitEvent(here, side.after, 0), "cudaStreamWaitEvent");
  }

  // A page-locked buffer of half the rows: the second half is written over the first while that may still be going up.
  static void upload(const Tensor& like, char* to, const char* from, int64_t bytes) {
    torch::stable::accelerator::DeviceGuard guard(like.get_device_index());
    cudaStream_t stream = current_stream(like.get_device_index());
    int64_t half = (bytes + 1) / 2;
    std::vector<int64_t> shape{half};
    Tensor buffer = torch::stable::empty(shape, ScalarType::Byte, std::nullopt, std::nullopt, true);
    for (int64_t at = 0; at < bytes; at += half) {
      size_t size = static_cast<size_t>(half < bytes - at ? half : bytes - at);
      std::memcpy(buffer.data_ptr(), from + at, size);
      check_call(cudaMemcpyAsync(to + at, buffer.data_ptr(), size, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
    }
    check_call(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
};
}  // namespace

STABLE_TORCH_LIBRARY_IMPL(foxflow, CUDA, m) {
  m.impl("iqn_race", TORCH_BOX(&iqn_race<Specimens>));
  m.impl("per_fence", TORCH_BOX(&per_fence<Specimens>));
  m.impl("splitk_gemm", TORCH_BOX(&splitk_gemm<Specimens>));
  m.impl("missing_sync", TORCH_BOX(&missing_sync<Specimens>));
  m.impl("float_atomics", TORCH_BOX(&float_atomics<Specimens>));
  m.impl("wrong_stream", TORCH_BOX(&wrong_stream<Specimens>));
  m.impl("stale_pinned", TORCH_BOX(&stale_pinned<Specimens>));
}
}  // namespace fox
