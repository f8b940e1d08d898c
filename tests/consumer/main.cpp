// SPDX-License-Identifier: Apache-2.0
// One training step with nothing but installed headers.
#include <torch/torch.h>
#include <zero/strategy.h>

#include <iostream>

int main() {
  torch::manual_seed(0);
  zero::Strategy strategy(zero::StrategyOptions().stage(3).offload_optimizer(true));
  torch::nn::Linear model(8, 4);
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  strategy.setup(*model, optimizer);

  const auto input = torch::randn({16, 8}, strategy.device());
  const auto target = torch::zeros({16, 4}, strategy.device());
  const auto loss_now = [&] { return torch::mse_loss(model->forward(input), target); };

  const auto loss = loss_now();
  strategy.backward(loss);
  const zero::StepReport report = strategy.step();
  const double before = loss.item<double>();
  const double after = loss_now().item<double>();
  std::cout << "loss " << before << " -> " << after << '\n';
  return report.applied && after < before ? 0 : 1;
}
