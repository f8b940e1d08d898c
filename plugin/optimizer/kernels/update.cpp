// SPDX-License-Identifier: Apache-2.0
#include "plugin/optimizer/kernels/update.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugin/optimizer/kernels/float_mode.h"
#include "plugin/optimizer/kernels/isa_kernels.h"

namespace zero::kernels {
namespace {

constexpr int64_t kChunk = 16384;  // elements a thread takes at a time

const char* missing_buffer(const Buffers& b, const Segment& segment) {
  const Scalars& s = segment.scalars;
  if (b.gradient == nullptr) return "gradient";
  const bool has_momentum = segment.rule == Rule::kSgd || segment.rule == Rule::kRmsprop;
  const bool is_adam = segment.rule == Rule::kAdam || segment.rule == Rule::kAdamW;
  if (has_momentum && s.momentum != 0 && b.moment1 == nullptr) return "moment1 (momentum buffer)";
  if (is_adam && b.moment1 == nullptr) return "moment1";
  if (segment.rule != Rule::kSgd && b.moment2 == nullptr) return "moment2";
  if (is_adam && s.amsgrad && b.moment3 == nullptr) return "moment3 (amsgrad)";
  if (segment.rule == Rule::kRmsprop && s.centered && b.moment3 == nullptr)
    return "moment3 (centered)";
  return nullptr;
}

void check_step(const char* function, int64_t step) {
  if (step >= 1) return;
  throw std::invalid_argument(std::string(function) + ": steps count from 1, was given " +
                              std::to_string(step));
}

}  // namespace

bool supported(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return true;
#ifdef __x86_64__
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::kAvx512:
      return supported(Isa::kAvx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512dq");
#endif
    default:
      return false;
  }
}

Isa best_isa() {
  static const Isa best = supported(Isa::kAvx512) ? Isa::kAvx512
                          : supported(Isa::kAvx2) ? Isa::kAvx2
                                                  : Isa::kPortable;
  return best;
}

std::string_view name_of(Isa isa) {
  return isa == Isa::kAvx512 ? "avx512" : isa == Isa::kAvx2 ? "avx2" : "portable";
}

const IsaKernels& kernels_for(Isa isa) {
  if (!supported(isa)) {
    throw std::invalid_argument(
        "update kernels: this processor does not have the instruction set asked for; use "
        "best_isa()");
  }
#ifdef __x86_64__
  if (isa == Isa::kAvx512) return kAvx512Kernels;
  if (isa == Isa::kAvx2) return kAvx2Kernels;
#endif
  return kPortableKernels;
}

Scalars adam_scalars(Rule rule, double lr, double beta1, double beta2, double eps,
                     double weight_decay, bool amsgrad, int64_t step) {
  if (rule != Rule::kAdam && rule != Rule::kAdamW) {
    throw std::invalid_argument("adam_scalars: this rule has its own, call that");
  }
  check_step("adam_scalars", step);
  const double correction1 = 1 - std::pow(beta1, static_cast<double>(step));
  const double correction2 = 1 - std::pow(beta2, static_cast<double>(step));
  Scalars s;
  s.step_size = static_cast<float>(lr / correction1);
  if (rule == Rule::kAdam) s.weight_decay = static_cast<float>(weight_decay);
  if (rule == Rule::kAdamW) s.decay = static_cast<float>(1 - lr * weight_decay);
  s.beta1 = static_cast<float>(beta1);
  s.one_minus_beta1 = static_cast<float>(1 - beta1);
  s.beta2 = static_cast<float>(beta2);
  s.one_minus_beta2 = static_cast<float>(1 - beta2);
  s.eps = static_cast<float>(eps);
  s.inverse_root_correction2 = static_cast<float>(1 / std::sqrt(correction2));
  s.amsgrad = amsgrad;
  return s;
}

Scalars sgd_scalars(double lr, double momentum, double dampening, double weight_decay,
                    bool nesterov, bool first_step) {
  Scalars s;
  s.step_size = static_cast<float>(lr);
  s.weight_decay = static_cast<float>(weight_decay);
  s.momentum = static_cast<float>(momentum);
  s.one_minus_dampening = static_cast<float>(1 - dampening);
  s.nesterov = nesterov;
  s.first_step = first_step;
  return s;
}

Scalars adagrad_scalars(double lr, double lr_decay, double eps, double weight_decay, int64_t step) {
  check_step("adagrad_scalars", step);
  Scalars s;
  s.step_size = static_cast<float>(lr / (1 + static_cast<double>(step - 1) * lr_decay));
  s.weight_decay = static_cast<float>(weight_decay);
  s.eps = static_cast<float>(eps);
  return s;
}

Scalars rmsprop_scalars(double lr, double alpha, double eps, double weight_decay, double momentum,
                        bool centered) {
  Scalars s;
  s.step_size = static_cast<float>(lr);
  s.weight_decay = static_cast<float>(weight_decay);
  s.beta2 = static_cast<float>(alpha);
  s.one_minus_beta2 = static_cast<float>(1 - alpha);
  s.eps = static_cast<float>(eps);
  s.momentum = static_cast<float>(momentum);
  s.centered = centered;
  return s;
}

void check_buffers(const Buffers& b, std::span<const Segment> segments) {
  const bool split_form = b.high != nullptr && b.low != nullptr;
  const bool any_split = b.high != nullptr || b.low != nullptr;
  if (!segments.empty() && (b.master != nullptr ? any_split : !split_form)) {
    throw std::invalid_argument("update: give the weight either as master, or as high and low");
  }
  for (const Segment& segment : segments) {
    if (segment.begin < 0 || segment.length < 0) {
      throw std::invalid_argument("update: a segment begins at " + std::to_string(segment.begin) +
                                  " and has length " + std::to_string(segment.length) +
                                  "; neither may be negative");
    }
    if (const char* missing = missing_buffer(b, segment)) {
      throw std::invalid_argument(std::string("update: a segment's rule needs the buffer ") +
                                  missing + ", which is null");
    }
  }
}

void update_cpu(Isa isa, ThreadPool& pool, const Buffers& buffers,
                std::span<const Segment> segments, float gradient_scale) {
  check_buffers(buffers, segments);
  const IsaKernels& kernels = kernels_for(isa);
  // Chunks are cut from all segments laid end to end, so that many small ones make few chunks.
  std::vector<int64_t> ends;
  ends.reserve(segments.size());
  int64_t total = 0;
  for (const Segment& segment : segments) ends.push_back(total += segment.length);

  pool.parallel_for((total + kChunk - 1) / kChunk, [&](int64_t chunk) {
    const DefaultFloatMode mode;
    int64_t at = chunk * kChunk;
    const int64_t end = std::min(total, at + kChunk);
    auto index = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), at) - ends.begin());
    for (; at < end; ++index) {
      Segment part = segments[index];
      const int64_t part_end = std::min(end, ends[index]);
      part.begin += at - (ends[index] - part.length);
      part.length = part_end - at;
      kernels.update(buffers, part, gradient_scale);
      at = part_end;
    }
  });
}

}  // namespace zero::kernels
