// SPDX-License-Identifier: Apache-2.0
// The stack of dropout blocks, trained under a strategy with and without regions.
#pragma once

#include <algorithm>

#include "activations/networks.h"
#include "zero/checkpoint.h"
#include "zero/strategy.h"

namespace zero::testing {

enum class Regions { kNone, kBlocks, kNested };  // kNested: pairs of blocks, and each block in them

inline StrategyOptions flags(int stage) {
  StrategyOptions options;
  options.device(test_device_name()).stage(stage).page_bytes(64 << 10);
  if (stage == 3) options.offload_parameters(true).offload_optimizer(true);
  return options;
}

// The same with everything moved to the host, small tensors too.
inline StrategyOptions moving(int stage) {
  return flags(stage).cpu_checkpointing(true).activation_offload_threshold(0);
}

struct Session {
  Session(StrategyOptions options, int blocks, int frozen = -1)
      : stack(blocks),
        optimizer(stack->parameters(), torch::optim::SGDOptions(0.05)),
        strategy(std::move(options)) {
    if (frozen >= 0) {
      for (auto& parameter : stack->blocks[frozen]->parameters())
        parameter.set_requires_grad(false);
    }
    strategy.setup(stack, optimizer);
  }

  at::Tensor block(size_t i, const at::Tensor& x, Regions regions) {
    if (regions == Regions::kNone) return stack->blocks[i](x);
    std::string name = "block ";
    name.append(std::to_string(i));
    return checkpoint(CheckpointOptions().name(name), stack->blocks[i], x);
  }

  at::Tensor run(at::Tensor x, Regions regions) {
    const size_t count = stack->blocks.size();
    const size_t at_once = regions == Regions::kNested ? 2 : 1;
    for (size_t first = 0; first < count; first += at_once) {
      const auto part = [=, this](at::Tensor h) {
        for (size_t i = first; i < std::min(first + at_once, count); ++i) h = block(i, h, regions);
        return h;
      };
      x = regions == Regions::kNested ? checkpoint(CheckpointOptions().name("pair"), part, x)
                                      : part(x);
    }
    return x;
  }

  // The loss of a fixed batch of `rows`, with fixed dropout.
  at::Tensor forward(int64_t rows, Regions regions, int64_t seed = 41) {
    torch::manual_seed(seed);
    const at::Tensor x = torch::randn({rows, kWidth}).to(strategy.device());
    return run(x, regions).square().mean();
  }
  void step(int64_t rows, Regions regions) {
    strategy.backward(forward(rows, regions));
    strategy.step();
  }
  std::vector<at::Tensor> gradients() {
    std::vector<at::Tensor> all;
    for (const auto& parameter : stack->parameters()) {
      all.push_back(parameter.requires_grad() ? strategy.gradient(parameter) : at::Tensor());
    }
    return all;
  }

  Stack stack;
  torch::optim::SGD optimizer;
  Strategy strategy;
};

struct Trained {
  std::vector<double> losses;
  std::vector<at::Tensor> gradients;  // of the last step
};

struct Training {
  int steps = 3;
  int micro_batches = 1;
  int frozen = -1;  // block
};

inline Trained train_stack(StrategyOptions options, int blocks, int64_t rows, Regions regions,
                           const Training& training = {}) {
  Session session(std::move(options), blocks, training.frozen);
  Trained trained;
  for (int step = 0; step < training.steps; ++step) {
    for (int micro = 0; micro < training.micro_batches; ++micro) {
      const at::Tensor loss = session.forward(rows, regions, 100 * step + micro);
      trained.losses.push_back(loss.item<double>());
      session.strategy.backward(loss);
    }
    if (step + 1 == training.steps) trained.gradients = session.gradients();
    session.strategy.step();
  }
  return trained;
}

}  // namespace zero::testing
