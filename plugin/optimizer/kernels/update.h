// SPDX-License-Identifier: Apache-2.0
// The update of one shard: fp32 AdamW, Adam, SGD, Adagrad and RMSprop as torch::optim does them, in
// one pass over memory. The gradient's scale (unscaling, mean, clipping), weight decay, the update and the bf16
// compute weight are all done in that pass.
//
// Note [Same bits everywhere]
// Every kernel (portable, AVX2, AVX-512, CUDA) applies the operations of update_rule.h in that
// file's order, each one rounded once as IEEE 754 says. So the result depends neither on the
// kernel, nor on the number of threads, nor on how a shard is cut into segments: a run with its
// optimizer offloaded to the CPU is bit-identical to one without. Only the payload of a NaN may
// differ.
//
// The functions keep no state. Calls on different buffers may run at the same time.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "plugin/optimizer/kernels/thread_pool.h"

namespace zero::kernels {

enum class Rule : uint8_t { kAdam, kAdamW, kSgd, kAdagrad, kRmsprop };

enum class Isa : uint8_t { kPortable, kAvx2, kAvx512 };
// Whether this build has the kernel and this processor runs it.
bool supported(Isa isa);
// The widest supported one.
Isa best_isa();
std::string_view name_of(Isa isa);

// What an element's update needs, computed once in double and rounded to float. CPU and CUDA
// kernels get the same bits.
struct Scalars {
  // Adam, AdamW: lr / (1 - beta1^step); Adagrad: lr / (1 + (step - 1) * lr_decay); SGD, RMSprop: lr
  float step_size = 0;
  float weight_decay = 0;  // all but AdamW: what times the weight is added to the gradient
  float decay = 1;         // AdamW: 1 - lr * weight_decay
  float beta1 = 0;
  float one_minus_beta1 = 0;
  float beta2 = 0;  // RMSprop: alpha
  float one_minus_beta2 = 0;
  float eps = 0;
  float inverse_root_correction2 = 0;  // 1 / sqrt(1 - beta2^step)
  float momentum = 0;
  float one_minus_dampening = 0;
  bool amsgrad = false;
  bool centered = false;
  bool nesterov = false;
  bool first_step = false;  // SGD: the momentum buffer starts as a copy of the gradient
};

// `step` counts from 1. Throws std::invalid_argument for a smaller one, or for another rule than kAdam
// and kAdamW.
Scalars adam_scalars(Rule rule, double lr, double beta1, double beta2, double eps,
                     double weight_decay, bool amsgrad, int64_t step);
Scalars sgd_scalars(double lr, double momentum, double dampening, double weight_decay,
                    bool nesterov, bool first_step);
// `step` counts from 1. Throws std::invalid_argument for a smaller one.
Scalars adagrad_scalars(double lr, double lr_decay, double eps, double weight_decay, int64_t step);
Scalars rmsprop_scalars(double lr, double alpha, double eps, double weight_decay, double momentum,
                        bool centered);

// Elements [begin, begin + length) of the shard's buffers.
struct Segment {
  int64_t begin = 0;
  int64_t length = 0;
  Scalars scalars;
  Rule rule = Rule::kAdamW;
};

// All over the same shard, so one index means the same element in each. Any alignment an element's
// type allows; no buffer overlaps another. The weight has one of two forms: `master`, or `high` and
// `low` (split_master.h).
struct Buffers {
  float* master = nullptr;
  uint16_t* high = nullptr;
  int16_t* low = nullptr;
  const float* gradient = nullptr;
  float* moment1 = nullptr;  // Adam, AdamW: first moment; SGD, RMSprop with momentum: its buffer
  float* moment2 = nullptr;  // Adam, AdamW: second moment; Adagrad: its sum; RMSprop: mean square
  // Adam, AdamW with amsgrad: largest second moment; RMSprop, centered: mean gradient
  float* moment3 = nullptr;
};

// Throws std::invalid_argument, and names what is missing, unless every buffer that the segments'
// rules use is there.
void check_buffers(const Buffers& buffers, std::span<const Segment> segments);

// Updates the segments, which must not overlap, with gradient * gradient_scale. Returns when all is
// written. Denormals are kept and rounding is to nearest, whatever mode the calling thread is in.
void update_cpu(Isa isa, ThreadPool& pool, const Buffers& buffers,
                std::span<const Segment> segments, float gradient_scale);

}  // namespace zero::kernels
