// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels give the CPU kernels' bits, whole training runs long.
#include <span>
#include <stdexcept>

#include "plugin/optimizer/kernels/norm.h"
#include "plugin/optimizer/kernels/update_cuda.h"
#include "tests/kernels/special_shard.h"

namespace zero::kernels::testing {
namespace {

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

// A copy of host values on the device; null for no values.
template <class T>
class DeviceCopy {
 public:
  explicit DeviceCopy(const std::vector<T>& values) : bytes_(values.size() * sizeof(T)) {
    if (bytes_ > 0) check(cudaMalloc(reinterpret_cast<void**>(&data_), bytes_));
    upload(values);
  }
  ~DeviceCopy() { cudaFree(data_); }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;

  T* data() const { return data_; }
  void upload(const std::vector<T>& values) {
    if (bytes_ > 0) check(cudaMemcpy(data_, values.data(), bytes_, cudaMemcpyHostToDevice));
  }
  void download(std::vector<T>& values) const {
    if (bytes_ > 0) check(cudaMemcpy(values.data(), data_, bytes_, cudaMemcpyDeviceToHost));
  }

 private:
  size_t bytes_;
  T* data_ = nullptr;
};

// The device's copy of a shard; update() trains it as update_cpu trains the shard.
struct DeviceShard {
  explicit DeviceShard(const Shard& shard)
      : form(shard.form),
        master(shard.master),
        gradient(shard.gradient),
        moment1(shard.moment1),
        moment2(shard.moment2),
        moment3(shard.moment3),
        high(shard.high),
        low(shard.low) {}

  void update(std::span<const Segment> segments, const float* scale) {
    const bool whole = form == Form::kMaster;
    update_cuda({whole ? master.data() : nullptr, whole ? nullptr : high.data(),
                 whole ? nullptr : low.data(), gradient.data(), moment1.data(), moment2.data(),
                 moment3.data()},
                segments, scale, nullptr);
  }

  void download(Shard& shard) const {
    master.download(shard.master);
    moment1.download(shard.moment1);
    moment2.download(shard.moment2);
    moment3.download(shard.moment3);
    high.download(shard.high);
    low.download(shard.low);
  }

  Form form;
  DeviceCopy<float> master, gradient, moment1, moment2, moment3;
  DeviceCopy<uint16_t> high;
  DeviceCopy<int16_t> low;
};

// More segments than one launch takes.
std::vector<Segment> many_segments(const RuleCase& rule, int64_t step) {
  std::vector<Segment> segments = odd_segments(rule, step);
  segments.pop_back();
  for (int64_t begin = 50'153; begin + 3 < kShardLength; begin += 4) {
    segments.push_back({begin, 3, rule.scalars(step), rule.rule});
  }
  return segments;
}

class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no device";
  }
  ThreadPool pool{2};
};

class CudaParity : public OnDevice, public ::testing::WithParamInterface<RuleCase> {};

TEST_P(CudaParity, TenStepsGiveTheBitsOfTheCpu) {
  for (Form form : {Form::kMaster, Form::kSplit}) {
    Shard cpu(kShardLength, form, 31), cuda(kShardLength, form, 31);
    DeviceShard device(cuda);
    const DeviceCopy<float> scale(std::vector<float>{0.37f});
    for (int64_t step = 1; step <= 10; ++step) {
      const auto segments = many_segments(GetParam(), step);
      ASSERT_GT(segments.size(), 64u);
      cpu.gradient = random_floats(kShardLength, static_cast<uint32_t>(step));
      device.gradient.upload(cpu.gradient);
      update_cpu(best_isa(), pool, cpu.buffers(), segments, 0.37f);
      device.update(segments, scale.data());
    }
    device.download(cuda);
    expect_same_state(cpu, cuda);
  }
}

TEST_P(CudaParity, SpecialValuesGiveTheBitsOfTheCpu) {
  for (Form form : {Form::kMaster, Form::kSplit}) {
    Shard cpu = special_shard(form), cuda = special_shard(form);
    DeviceShard device(cuda);
    const auto length = static_cast<int64_t>(cpu.gradient.size());
    for (int64_t step = 1; step <= 3; ++step) {
      const Segment all{0, length, GetParam().scalars(step), GetParam().rule};
      update_cpu(best_isa(), pool, cpu.buffers(), {&all, 1}, 1.0f);
      device.update({&all, 1}, nullptr);
    }
    device.download(cuda);
    expect_same_state(cpu, cuda);
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, CudaParity, ::testing::ValuesIn(all_rules()), rule_name);

using CudaUpdate = OnDevice;

TEST_F(CudaUpdate, RulesMayDifferBetweenTheSegmentsOfOneCall) {
  Shard cpu(kShardLength, Form::kSplit, 37), cuda(kShardLength, Form::kSplit, 37);
  DeviceShard device(cuda);
  const auto rules = all_rules();
  const int64_t length = kShardLength / static_cast<int64_t>(rules.size());
  std::vector<Segment> segments;
  for (const RuleCase& rule : rules) {
    const auto begin = length * static_cast<int64_t>(segments.size());
    segments.push_back({begin, length, rule.scalars(2), rule.rule});
  }
  update_cpu(best_isa(), pool, cpu.buffers(), segments, 1.0f);
  device.update(segments, nullptr);
  device.download(cuda);
  expect_same_state(cpu, cuda);
}

using CudaNorm = OnDevice;

TEST_F(CudaNorm, IsTheCpusNormToTheLastBitAndAddsToTheResult) {
  for (int64_t length : {0, 1, 255, 257, 8192, 8193, 70'000, 5'000'003}) {
    const auto values = random_floats(length, 41, 1e2f);
    const double expected = sum_of_squares_cpu(pool, values.data(), length);
    const DeviceCopy<float> on_device(values);
    const auto scratch_length = static_cast<size_t>(sum_of_squares_scratch(length));
    const DeviceCopy<double> scratch{std::vector<double>(scratch_length)};
    const DeviceCopy<double> result{std::vector<double>{0.0}};
    std::vector<double> sum{0.0};
    sum_of_squares_cuda(on_device.data(), length, scratch.data(), result.data(), nullptr);
    result.download(sum);
    EXPECT_EQ(sum[0], expected) << length;
    sum_of_squares_cuda(on_device.data(), length, scratch.data(), result.data(), nullptr);
    result.download(sum);
    EXPECT_EQ(sum[0], expected + expected) << length;
  }
}

TEST_F(CudaNorm, ShowsWhatIsNotFinite) {
  for (float value : {INFINITY, -INFINITY, NAN}) {
    std::vector<float> values(20'000, 1.0f);
    values[19'999] = value;
    const DeviceCopy<float> on_device(values);
    const DeviceCopy<double> scratch{std::vector<double>(3)};
    const DeviceCopy<double> result{std::vector<double>{0.0}};
    std::vector<double> sum{0.0};
    sum_of_squares_cuda(on_device.data(), 20'000, scratch.data(), result.data(), nullptr);
    result.download(sum);
    EXPECT_FALSE(std::isfinite(sum[0]));
    EXPECT_EQ(std::isnan(sum[0]), std::isnan(value));
  }
}

TEST_F(CudaNorm, ClipCoefficientIsTheHosts) {
  for (double sum : {0.0, 1e-20, 0.3, 2.0, 12345.678, double{INFINITY}, double{NAN}}) {
    for (double max_norm : {0.1, 1.0, 50.0}) {
      const DeviceCopy<double> sum_on_device{std::vector<double>{sum}};
      const DeviceCopy<double> norm_on_device{std::vector<double>{-1.0}};
      const DeviceCopy<float> coefficient_on_device{std::vector<float>{-1.0f}};
      clip_coefficient_cuda(sum_on_device.data(), max_norm, coefficient_on_device.data(),
                            norm_on_device.data(), nullptr);
      std::vector<double> norm{-1.0};
      std::vector<float> coefficient{-1.0f};
      norm_on_device.download(norm);
      coefficient_on_device.download(coefficient);
      const float expected = clip_coefficient(std::sqrt(sum), max_norm);
      EXPECT_EQ(std::isnan(coefficient[0]), std::isnan(expected));
      if (std::isnan(sum)) continue;
      EXPECT_EQ(norm[0], std::sqrt(sum));
      EXPECT_EQ(coefficient[0], expected);
    }
  }
}

}  // namespace
}  // namespace zero::kernels::testing
