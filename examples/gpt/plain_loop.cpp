// SPDX-License-Identifier: Apache-2.0
// The same GPT in a plain LibTorch loop: setup() is the only line that is about ZeRO.
//
//   zero-launch -n 2 gpt_plain_loop [corpus]
#include <torch/torch.h>
#include <zero/strategy.h>

#include <iostream>

#include "examples/gpt/corpus.h"
#include "examples/gpt/model.h"

namespace {

constexpr int kSteps = 10;
constexpr int64_t kRows = 8;

void train(const char* file) {
  const gpt::Corpus corpus = gpt::Corpus::from_file(file);
  torch::manual_seed(1);
  gpt::GPT model;
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));

  zero::Strategy strategy(
      zero::StrategyOptions().stage(3).offload_parameters(true).offload_optimizer(true));
  strategy.setup(*model, optimizer);

  gpt::WindowSampler windows(corpus, kRows, model->context(), /*seed=*/1, strategy.rank());
  for (int step = 1; step <= kSteps; ++step) {
    const gpt::Batch batch = windows.next();
    optimizer.zero_grad();
    auto loss = model->loss(batch.tokens.to(strategy.device()), batch.target.to(strategy.device()));
    loss.backward();
    optimizer.step();
    if (strategy.rank() == 0)
      std::cout << "step " << step << "  loss " << loss.item<double>() << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(argc > 1 ? argv[1] : gpt::kDictionary);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "gpt_plain_loop: " << error.what() << std::endl;
    return 1;
  }
}
