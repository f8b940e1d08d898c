// SPDX-License-Identifier: Apache-2.0
// The same GPT in a plain LibTorch loop: only the two lines that make the strategy and set it up
// are about ZeRO.
//
//   zero-launch -n 2 gpt_plain_loop configs/gpt_plain_loop.yaml [corpus]
//
// Prints the loss of each step on rank 0's batch, then which part of the engine has read each flag.
#include <torch/torch.h>
#include <zero/strategy.h>

#include <iostream>

#include "examples/gpt/corpus.h"
#include "examples/gpt/model.h"

namespace {

constexpr int kSteps = 20;
constexpr int64_t kRows = 8;

void train(const char* config, const char* file) {
  const gpt::Corpus corpus = gpt::Corpus::from_file(file);
  torch::manual_seed(1);
  gpt::GPT model;
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(5e-4));

  auto strategy = zero::Strategy::from_yaml(config);
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
  if (strategy.rank() == 0) std::cout << '\n' << strategy.forwarded();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: gpt_plain_loop CONFIG [CORPUS]" << std::endl;
    return 2;
  }
  try {
    train(argv[1], argc == 3 ? argv[2] : gpt::kDictionary);
    return 0;
  } catch (const c10::Error& error) {
    std::cerr << "gpt_plain_loop: " << error.what_without_backtrace() << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "gpt_plain_loop: " << error.what() << std::endl;
  }
  return 1;
}
