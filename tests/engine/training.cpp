// SPDX-License-Identifier: Apache-2.0
#include "engine/training.h"

#include <limits>

#include "support/device.h"

namespace zero::testing {

namespace {

constexpr int kVocabulary = 37;
constexpr int kWidth = 20;
constexpr int kHidden = 45;

using Tensors = std::map<std::string, at::Tensor>;

Tensors snapshot(const torch::nn::Module& model) {
  Tensors tensors;
  at::NoGradGuard no_grad;
  for (const auto& item : model.named_parameters())
    tensors[item.key()] = item.value().detach().clone().cpu();
  return tensors;
}

TinyModel make_model() {
  torch::manual_seed(7);
  return TinyModel();
}

template <class Optimizer, class Options>
std::unique_ptr<torch::optim::Optimizer> two_groups(const torch::nn::Module& model, Options first,
                                                    Options second) {
  std::vector<at::Tensor> matrices, others;
  for (const auto& parameter : model.parameters())
    (parameter.dim() > 1 ? matrices : others).push_back(parameter);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(matrices, std::make_unique<Options>(first));
  groups.emplace_back(others, std::make_unique<Options>(second));
  return std::make_unique<Optimizer>(groups, first);
}

}  // namespace

TinyModelImpl::TinyModelImpl() {
  embedding = register_module("embedding", torch::nn::Embedding(kVocabulary, kWidth));
  first = register_module("first", torch::nn::Linear(kWidth, kHidden));
  norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kHidden})));
  second = register_module("second", torch::nn::Linear(kHidden, kWidth));
  temperature = register_parameter("temperature", torch::ones({}));
  empty = register_parameter("empty", torch::zeros({0, 3}));
  frozen = register_parameter("frozen", torch::rand({5}), /*requires_grad=*/false);
  unused = register_parameter("unused", torch::rand({11}));
}

at::Tensor TinyModelImpl::loss(const at::Tensor& tokens) {
  const at::Tensor inputs = tokens.slice(1, 0, -1);
  const at::Tensor targets = tokens.slice(1, 1);
  at::Tensor x = embedding(inputs);
  x = x + second(norm(torch::gelu(first(x))));
  const at::Tensor logits = torch::matmul(x, embedding->weight.t()) * temperature + frozen.sum();
  return torch::nn::functional::cross_entropy(logits.reshape({-1, kVocabulary}).to(at::kFloat),
                                              targets.reshape(-1));
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(Rule rule, const torch::nn::Module& model) {
  using namespace torch::optim;
  switch (rule) {
    case Rule::kAdamW:
      return two_groups<AdamW>(model, AdamWOptions(3e-3).weight_decay(0.1),
                               AdamWOptions(1e-3).weight_decay(0.0));
    case Rule::kAdam:
      return two_groups<Adam>(model, AdamOptions(3e-3).weight_decay(0.01).amsgrad(true),
                              AdamOptions(1e-3));
    case Rule::kSgd:
      return two_groups<SGD>(model, SGDOptions(0.05).momentum(0.9).nesterov(true),
                             SGDOptions(0.02).weight_decay(0.01));
    case Rule::kAdagrad:
      return two_groups<Adagrad>(
          model, AdagradOptions(0.02).lr_decay(0.01).initial_accumulator_value(0.01),
          AdagradOptions(0.01).weight_decay(0.01));
    case Rule::kRmsprop:
      return two_groups<RMSprop>(model, RMSpropOptions(1e-3).momentum(0.9).eps(1e-5).centered(true),
                                 RMSpropOptions(1e-3).eps(1e-5).weight_decay(0.01));
  }
  return nullptr;
}

at::Tensor batch(int step, int micro, int rank) {
  torch::manual_seed(1000 * step + 100 * micro + rank);
  return torch::randint(0, kVocabulary, {2, 7}, at::kLong);
}

Outcome train(const Run& run) {
  Outcome outcome;
  auto model = make_model();
  auto optimizer = make_optimizer(run.rule, *model);
  auto options = run.options;
  if (run.loop == Loop::kStrategy && run.clip > 0) options.gradient_clipping(run.clip);
  Strategy strategy(options);
  strategy.setup(*model, *optimizer);
  for (int step = 0; step < run.steps; ++step) {
    if (run.loop == Loop::kPlain) optimizer->zero_grad();
    for (int micro = 0; micro < run.accumulation; ++micro) {
      const at::Tensor loss =
          model->loss(batch(step, micro, strategy.rank()).to(strategy.device()));
      outcome.losses.push_back(loss.item<double>());
      run.loop == Loop::kStrategy ? strategy.backward(loss / run.accumulation)
                                  : (loss / run.accumulation).backward();
    }
    if (step == 0) {
      for (const auto& item : model->named_parameters()) {
        if (item.value().numel() == 0 || !item.value().requires_grad()) continue;
        const at::Tensor gradient = strategy.gradient(item.value());
        if (gradient.defined()) outcome.gradients[item.key()] = gradient.cpu();
      }
    }
    if (run.loop == Loop::kStrategy) {
      const StepReport report = strategy.step();
      if (run.clip > 0) outcome.norms.push_back(report.gradient_norm);
      outcome.last_step = report;
    } else {
      if (run.clip > 0) {
        outcome.norms.push_back(torch::nn::utils::clip_grad_norm_(model->parameters(), run.clip));
      }
      optimizer->step();
    }
  }
  outcome.parameters = snapshot(*model);
  outcome.report = strategy.memory_report();
  return outcome;
}

Outcome train_plain(const Run& run, at::ScalarType compute, int rank, int world_size) {
  Outcome outcome;
  auto model = make_model();
  auto masters = make_model();  // in fp32 the same as the model
  model->to(test_device());
  masters->to(test_device());
  auto optimizer = make_optimizer(run.rule, *masters);
  model->to(compute);
  const auto pairs = [&](const auto& action) {
    auto from = model->parameters();
    auto to = masters->parameters();
    for (size_t i = 0; i < from.size(); ++i) action(from[i], to[i]);
  };
  for (int step = 0; step < run.steps; ++step) {
    optimizer->zero_grad();
    for (int micro = 0; micro < run.accumulation; ++micro) {
      for (int other = 0; other < world_size; ++other) {
        const at::Tensor loss = model->loss(batch(step, micro, other).to(test_device()));
        if (other == rank) outcome.losses.push_back(loss.item<double>());
        (loss / run.accumulation * run.loss_scale).backward();
        pairs([&](at::Tensor& parameter, at::Tensor& master) {
          if (!parameter.grad().defined()) return;
          const at::Tensor gradient = parameter.grad().to(at::kFloat) / run.loss_scale / world_size;
          parameter.mutable_grad().reset();
          master.mutable_grad() = master.grad().defined() ? master.grad() + gradient : gradient;
        });
      }
    }
    if (step == 0) {
      for (const auto& item : masters->named_parameters()) {
        if (item.value().grad().defined() && item.value().numel() > 0) {
          outcome.gradients[item.key()] = item.value().grad().clone().cpu();
        }
      }
    }
    if (run.clip > 0) {
      outcome.norms.push_back(torch::nn::utils::clip_grad_norm_(masters->parameters(), run.clip));
    }
    optimizer->step();
    at::NoGradGuard no_grad;
    pairs([](at::Tensor& parameter, at::Tensor& master) { parameter.copy_(master); });
  }
  outcome.parameters = snapshot(*model);
  return outcome;
}

double distance(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second.sizes() != tensor.sizes())
      return std::numeric_limits<double>::infinity();
    if (tensor.numel() == 0) continue;
    const at::Tensor expected = other->second.to(at::kDouble);
    const double norm = expected.norm().item<double>();
    const double error = (tensor.to(at::kDouble) - expected).norm().item<double>();
    if (!std::isfinite(error)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, norm > 0 ? error / norm : error);
  }
  return largest;
}

bool same_bits(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second.dtype() != tensor.dtype() ||
        !at::equal(tensor, other->second))
      return false;
  }
  return true;
}

}  // namespace zero::testing
