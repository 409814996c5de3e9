// Worst error in ulp of every function of cuda_ext/portable.h over all 2^32 float32 inputs, against std in double, and
// its speed over a contiguous array. From the repository's root (minutes; name functions to sweep only those):
//   g++ -O3 -march=x86-64-v3 -ffp-contract=off -fno-math-errno -fno-trapping-math -pthread -Icuda_ext
//       benchmarks/sweep_portable.cpp -o build/sweep_portable && build/sweep_portable [exp log …]
#include "portable.h"

#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

namespace {
struct Worst {
  double ulp = 0.;
  float at = 0.f;
  uint64_t wrong_special = 0;
};

// Distance in units of the last place of the exact value's float32; what lies past FLT_MAX counts as 2^128.
double ulps(float got, double exact) {
  constexpr double limit = 0x1p128;
  exact = exact > limit ? limit : (exact < -limit ? -limit : exact);
  double have = got > 0x1.fffffep127f ? limit : (got < -0x1.fffffep127f ? -limit : static_cast<double>(got));
  uint64_t bits, unit_bits;
  std::memcpy(&bits, &exact, 8);
  int64_t exponent = static_cast<int64_t>(bits >> 52 & 0x7FF) - 1023;
  exponent = exponent < -126 ? -126 : (exponent > 127 ? 127 : exponent);
  unit_bits = static_cast<uint64_t>(23 - exponent + 1023) << 52;
  double per_unit;
  std::memcpy(&per_unit, &unit_bits, 8);
  return std::fabs(have - exact) * per_unit;
}

template <class F, class G> Worst sweep(F portable, G exact, uint64_t begin, uint64_t end) {
  Worst worst;
  constexpr uint64_t block = 4096;
  std::vector<float> x(block), y(block);
  for (uint64_t first = begin; first < end; first += block) {
    for (uint64_t i = 0; i < block; ++i) x[i] = px::from_bits(static_cast<uint32_t>(first + i));
    for (uint64_t i = 0; i < block; ++i) y[i] = portable(x[i]);
    for (uint64_t i = 0; i < block; ++i) {
      double want = exact(static_cast<double>(x[i]));
      bool zero = want == 0. && y[i] == 0.f;
      if (std::isnan(want) || std::isnan(y[i]) || zero) {
        bool right = std::isnan(want) ? px::to_bits(y[i]) == 0x7FC00000u : zero && std::signbit(want) == std::signbit(y[i]);
        worst.wrong_special += !right;
        continue;
      }
      double error = ulps(y[i], want);
      if (error > worst.ulp) worst.ulp = error, worst.at = x[i];
    }
  }
  return worst;
}

template <class F> double per_nanosecond(F portable) {
  constexpr int size = 4096, rounds = 4000;
  std::vector<float> x(size), y(size);
  for (int i = 0; i < size; ++i) x[i] = 0.001f * static_cast<float>(i) + 0.01f;
  const float* from = x.data();
  float* to = y.data();
  auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < rounds; ++round) {
#pragma GCC ivdep
    for (int i = 0; i < size; ++i) to[i] = portable(from[i]);
    asm volatile("" ::: "memory");
  }
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return 1e-9 * size * rounds / seconds;
}

template <class F, class G> bool report(const char* name, F portable, G exact, int count, char** names) {
  bool wanted = count == 1;
  for (int i = 1; i < count; ++i) wanted = wanted || !std::strcmp(names[i], name);
  if (!wanted) return true;
  unsigned threads = std::thread::hardware_concurrency();
  std::vector<Worst> parts(threads);
  std::vector<std::thread> running;
  uint64_t all = uint64_t(1) << 32, share = all / threads / 4096 * 4096;
  for (unsigned t = 0; t < threads; ++t)
    running.emplace_back([&, t] { parts[t] = sweep(portable, exact, t * share, t + 1 == threads ? all : (t + 1) * share); });
  for (auto& thread : running) thread.join();
  Worst worst;
  for (const Worst& part : parts) {
    if (part.ulp > worst.ulp) worst.ulp = part.ulp, worst.at = part.at;
    worst.wrong_special += part.wrong_special;
  }
  std::printf("%-8s %.3f ulp at %a, %llu wrong NaN or zero, %.2f G/s\n", name, worst.ulp, static_cast<double>(worst.at),
              static_cast<unsigned long long>(worst.wrong_special), per_nanosecond(portable));
  std::fflush(stdout);
  return worst.ulp <= 2. && worst.wrong_special == 0;
}
}  // namespace

int main(int count, char** names) {
  bool good = true;
#define SWEEP(name, exact) good &= report(#name, [](float x) { return px::name(x); }, [](double x) { return exact; }, count, names)
  SWEEP(exp, std::exp(x));
  SWEEP(log, std::log(x));
  SWEEP(log1p, std::log1p(x));
  SWEEP(tanh, std::tanh(x));
  SWEEP(sigmoid, 1. / (1. + std::exp(-x)));
  SWEEP(softplus, (x > 0. ? x : 0.) + std::log1p(std::exp(-std::fabs(x))));
  SWEEP(sin, std::sin(x));
  SWEEP(cos, std::cos(x));
#undef SWEEP
  return good ? 0 : 1;
}
