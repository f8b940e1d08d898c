// SPDX-License-Identifier: Apache-2.0
// One small model and its training, with LibTorch alone and under a strategy, on the same data.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

#include "zero/strategy.h"

namespace zero::testing {

// A language model in miniature: embedding tied with the head, LayerNorm, attention-free blocks,
// and what partitioning finds hard: odd sizes, a scalar, a parameter without elements, a frozen
// one, and one that no loss uses.
struct TinyModelImpl : torch::nn::Module {
  TinyModelImpl();
  at::Tensor loss(const at::Tensor& tokens);
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  at::Tensor temperature, empty, frozen, unused;
};
TORCH_MODULE(TinyModel);

enum class Rule { kAdamW, kAdam, kSgd, kAdagrad, kRmsprop };

// Who runs the update.
enum class Loop {
  kStrategy,  // strategy.backward(), strategy.step()
  kPlain,     // loss.backward(), LibTorch's clip_grad_norm_(), optimizer.step() and zero_grad()
};

struct Run {
  StrategyOptions options;
  Rule rule = Rule::kAdamW;
  Loop loop = Loop::kStrategy;
  int steps = 10;
  int accumulation = 1;
  double clip = 0.0;        // 0: off
  double loss_scale = 1.0;  // of LibTorch alone; under a strategy `options` says it
};

struct Outcome {
  std::vector<double> losses;  // of this rank, one a micro-batch
  std::vector<double> norms;   // one a step, where clipping is on
  std::map<std::string, at::Tensor>
      gradients;  // of the first step, mean over ranks, fp32, before clipping
  std::map<std::string, at::Tensor> parameters;  // after the last step
  MemoryReport report;                           // then, of a strategy
  StepReport last_step;                          // of strategy.step()
};

std::unique_ptr<torch::optim::Optimizer> make_optimizer(Rule rule, const torch::nn::Module& model);

// Micro-batch `micro` of step `step` on `rank`: [2, 7] tokens.
at::Tensor batch(int step, int micro, int rank);

Outcome train(const Run& run);
// The same with LibTorch alone, all ranks' batches in this process; losses are those of `rank`.
// A model that computes in bf16 or fp16 has fp32 masters beside it, and micro-batches are unscaled
// and added up in fp32, as the engine says it does.
Outcome train_plain(const Run& run, at::ScalarType compute, int rank, int world_size);

// Largest relative distance, |a - b| / |b| by 2-norm, over all tensors; infinite when the names
// differ.
double distance(const std::map<std::string, at::Tensor>& a,
                const std::map<std::string, at::Tensor>& b);
bool same_bits(const std::map<std::string, at::Tensor>& a,
               const std::map<std::string, at::Tensor>& b);

}  // namespace zero::testing
