// SPDX-License-Identifier: Apache-2.0
// Memory traffic of the CPU update kernels and the norm, in bytes read and written per second.
#include <benchmark/benchmark.h>

#include <vector>

#include "plugin/optimizer/kernels/norm.h"
#include "plugin/optimizer/kernels/split_master.h"
#include "plugin/optimizer/kernels/update.h"

namespace zero::kernels {
namespace {

constexpr int64_t kElements = int64_t{1} << 25;  // 128 MiB a buffer: no cache keeps it

struct Shard {
  std::vector<float> master = std::vector<float>(kElements, 0.5f);
  std::vector<float> gradient = std::vector<float>(kElements, 1e-3f);
  std::vector<float> moment1 = std::vector<float>(kElements);
  std::vector<float> moment2 = std::vector<float>(kElements);
  std::vector<uint16_t> high = std::vector<uint16_t>(kElements, split(0.5f).high);
  std::vector<int16_t> low = std::vector<int16_t>(kElements);
};

Shard& shard() {
  static Shard shard;
  return shard;
}

bool skipped(benchmark::State& state, Isa isa) {
  if (supported(isa)) return false;
  state.SkipWithError("this processor does not have the instruction set");
  return true;
}

void adamw(benchmark::State& state, Isa isa, bool split_form) {
  if (skipped(state, isa)) return;
  ThreadPool pool(static_cast<int>(state.range(0)));
  Shard& s = shard();
  Buffers buffers{
      .gradient = s.gradient.data(), .moment1 = s.moment1.data(), .moment2 = s.moment2.data()};
  if (split_form) {
    buffers.high = s.high.data();
    buffers.low = s.low.data();
  } else {
    buffers.master = s.master.data();
  }
  const Segment all{0, kElements,
                    adam_scalars(Rule::kAdamW, 1e-3, 0.9, 0.999, 1e-8, 0.01, false, 10),
                    Rule::kAdamW};
  for (auto _ : state) update_cpu(isa, pool, buffers, {&all, 1}, 1.0f);
  state.SetItemsProcessed(state.iterations() * kElements);
  // Read: gradient, weight, two moments; written: all but the gradient.
  state.SetBytesProcessed(state.iterations() * kElements * (4 * 4 + 3 * 4));
}

void norm(benchmark::State& state, Isa isa) {
  if (skipped(state, isa)) return;
  ThreadPool pool(static_cast<int>(state.range(0)));
  const float* values = shard().gradient.data();
  for (auto _ : state) {
    benchmark::DoNotOptimize(sum_of_squares_cpu(pool, values, kElements, isa));
  }
  state.SetBytesProcessed(state.iterations() * kElements * 4);
}

void thread_counts(benchmark::internal::Benchmark* run) {
  const int cores = ThreadPool::available_cores();
  for (int threads = 1; threads < cores; threads *= 2) run->Arg(threads);
  run->Arg(cores)->ArgName("threads")->UseRealTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(adamw, master_portable, Isa::kPortable, false)->Apply(thread_counts);
BENCHMARK_CAPTURE(adamw, master_avx2, Isa::kAvx2, false)->Apply(thread_counts);
BENCHMARK_CAPTURE(adamw, master_avx512, Isa::kAvx512, false)->Apply(thread_counts);
BENCHMARK_CAPTURE(adamw, split_portable, Isa::kPortable, true)->Apply(thread_counts);
BENCHMARK_CAPTURE(adamw, split_avx2, Isa::kAvx2, true)->Apply(thread_counts);
BENCHMARK_CAPTURE(adamw, split_avx512, Isa::kAvx512, true)->Apply(thread_counts);
BENCHMARK_CAPTURE(norm, portable, Isa::kPortable)->Apply(thread_counts);
BENCHMARK_CAPTURE(norm, avx2, Isa::kAvx2)->Apply(thread_counts);
BENCHMARK_CAPTURE(norm, avx512, Isa::kAvx512)->Apply(thread_counts);

}  // namespace
}  // namespace zero::kernels
