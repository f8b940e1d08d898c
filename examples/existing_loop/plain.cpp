// SPDX-License-Identifier: Apache-2.0
// A training loop as people write it for LibTorch alone: <program> <folder for results> [<flags>].
// plain.cpp and with_zero.cpp are the same text, but for the lines that put the model under a
// strategy.
#include <torch/torch.h>

#include <iostream>
#include <string>

namespace {

constexpr int kClasses = 10;
constexpr int kSteps = 50;
constexpr double kEmaDecay = 0.9;

struct NetImpl : torch::nn::Cloneable<NetImpl> {
  NetImpl() { reset(); }
  void reset() override {
    embedding = register_module("embedding", torch::nn::Embedding(64, 32));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})));
    hidden = register_module("hidden", torch::nn::Linear(32, 96));
    dropout = register_module("dropout", torch::nn::Dropout(0.1));
    head = register_module("head", torch::nn::Linear(96, kClasses));
  }
  torch::Tensor forward(const torch::Tensor& ids) {
    return head(dropout(torch::gelu(hidden(norm(embedding(ids).mean(1))))));
  }
  torch::nn::Embedding embedding{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear hidden{nullptr}, head{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Net);

struct Batch {
  torch::Tensor ids, classes;
};

Batch draw_batch() {
  const torch::Tensor ids = torch::randint(64, {16, 8}, torch::kLong);
  return {ids, ids.sum(1).remainder(kClasses)};
}

double evaluate(Net& model, const Batch& held_out) {
  const torch::NoGradGuard no_grad;
  model->eval();
  const double loss =
      torch::nn::functional::cross_entropy(model(held_out.ids), held_out.classes).item<double>();
  model->train();
  return loss;
}

void follow(const Net& ema, const Net& model) {
  const torch::NoGradGuard no_grad;
  const auto from = model->parameters();
  const auto to = ema->parameters();
  for (size_t i = 0; i < from.size(); ++i) to[i].lerp_(from[i], 1 - kEmaDecay);
}

void save_weights(const Net& model, const std::string& file) {
  const torch::NoGradGuard no_grad;
  torch::serialize::OutputArchive archive;
  for (const auto& item : model->named_parameters())
    archive.write(item.key(), item.value().clone());
  archive.save_to(file);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  torch::manual_seed(1);
  Net model;
  Net ema(std::dynamic_pointer_cast<NetImpl>(model->clone()));
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  torch::optim::StepLR schedule(optimizer, /*step_size=*/20, /*gamma=*/0.5);

  const Batch held_out = draw_batch();
  for (int step = 1; step <= kSteps; ++step) {
    const Batch batch = draw_batch();
    optimizer.zero_grad();
    const torch::Tensor loss =
        torch::nn::functional::cross_entropy(model(batch.ids), batch.classes);
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    optimizer.step();
    schedule.step();
    follow(ema, model);
    if (step % 10 == 0) {
      std::cout << "step " << step << ", loss " << loss.item<double>() << ", held out "
                << evaluate(model, held_out) << ", its average " << evaluate(ema, held_out) << '\n';
    }
  }
  save_weights(model, folder + "/model.pt");
  torch::save(ema, folder + "/ema.pt");
}
