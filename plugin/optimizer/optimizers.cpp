// SPDX-License-Identifier: Apache-2.0
#include "plugin/optimizer/optimizers.h"

namespace zero {

namespace {

// A state that was loaded on all ranks, as it is, fits all of them or none goes on.
void check_together(const std::vector<ShardedOptimizer*>& optimizers, Control& control) {
  std::optional<std::string> error;
  try {
    for (const auto* optimizer : optimizers) optimizer->check_state_elsewhere();
  } catch (const c10::Error& problem) {
    error = problem.what_without_backtrace();
  }
  control.raise_together(error);
}

}  // namespace

Optimizers::Optimizers(const std::vector<torch::optim::Optimizer*>& users, ParameterPages& pages,
                       const ShardedOptimizerOptions& options, Buffers& buffers, Ledger& ledger,
                       kernels::ThreadPool& pool)
    : pages_(pages), isa_(options.isa) {
  for (auto* user : users) {
    const int index = static_cast<int>(all_.size());
    all_.push_back(
        std::make_unique<ShardedOptimizer>(*user, index, pages, options, buffers, ledger, pool));
  }
}

void Optimizers::initialize(const ParameterPage& page, const at::Tensor& exact_shard) {
  const int optimizer = page.layout().optimizer;
  if (optimizer >= 0) all_[optimizer]->initialize(page, exact_shard);
}

void Optimizers::connect(Gradients& gradients) {
  for (const auto& optimizer : all_) optimizer->connect(gradients);
  const auto masters_of = [this](const GradientPage& page) {
    const ParameterPage& parameters = page.parameter_page();
    return all_[parameters.layout().optimizer]->page_of(parameters);
  };
  gradients.on_presence = [masters_of, &gradients](const GradientPage& page, size_t parameter) {
    masters_of(page)->set_gradient(parameter, gradients.present(page, parameter));
  };
  gradients.cleared_elsewhere = [masters_of](const GradientPage& page, size_t parameter) {
    return masters_of(page)->cleared(parameter);
  };
}

void Optimizers::check_exchange(const std::vector<torch::optim::Optimizer*>& users) const {
  TORCH_CHECK(users.size() == all_.size(), "LibZeRO: setup was called before with ", all_.size(),
              " optimizers, and now with ", users.size(), ". Call teardown(), then setup().");
  std::unordered_map<const c10::TensorImpl*, int> owner;
  std::unordered_map<const c10::TensorImpl*, std::string> name;
  for (const auto& page : pages_.all()) {
    for (const auto& slice : page->layout().parameters) {
      const auto* key = slice.parameter.tensor.unsafeGetTensorImpl();
      owner[key] = page->layout().optimizer;
      name[key] = slice.parameter.name;
    }
  }
  for (size_t i = 0; i < users.size(); ++i) {
    all_[i]->check_exchange(*users[i]);
    for (const auto& group : users[i]->param_groups()) {
      for (const auto& parameter : group.params()) {
        if (parameter.numel() == 0 || all_[i]->holds(parameter)) continue;
        const auto found = owner.find(parameter.unsafeGetTensorImpl());
        TORCH_CHECK(found != owner.end(), "LibZeRO: the optimizer's tensor of sizes ",
                    parameter.sizes(), " is no parameter of the model that was set up.");
        TORCH_CHECK(found->second == static_cast<int>(i), "LibZeRO: parameter '",
                    name[found->first], "' was in ",
                    found->second < 0 ? "no optimizer" : "another optimizer",
                    " at the setup before, so it has no master weights for this one. Call "
                    "teardown(), then setup().");
      }
    }
  }
}

void Optimizers::exchange(const std::vector<torch::optim::Optimizer*>& users,
                          Communicator& gather) {
  for (size_t i = 0; i < users.size(); ++i) all_[i]->exchange(*users[i], gather);
}

void Optimizers::return_state(Communicator& gather) {
  for (const auto& optimizer : all_) optimizer->return_state(gather);
}

void Optimizers::notice_thawed(Gradients& gradients, Control& control) {
  std::vector<ParameterPage*> thawed;
  std::string names;
  for (const auto& page : pages_.all()) {
    const auto& layout = page->layout();
    if (layout.trainable || layout.optimizer < 0) continue;
    for (const auto& slice : layout.parameters) {
      if (!slice.parameter.tensor.requires_grad()) continue;
      if (thawed.empty() || thawed.back() != page.get()) thawed.push_back(page.get());
      names.append(slice.parameter.name).append("\n");
    }
  }
  if (thawed.empty()) return;
  control.agree("the parameters that require a gradient now", names,
                "Freeze and thaw the same parameters on every rank.");
  for (ParameterPage* page : thawed) {
    pages_.train(*page);
    gradients.add(*page);
    all_[page->layout().optimizer]->add(*page, gradients);
  }
}

int Optimizers::index_of(const torch::optim::Optimizer& user) const {
  for (size_t i = 0; i < all_.size(); ++i) {
    if (&all_[i]->user() == &user) return static_cast<int>(i);
  }
  TORCH_CHECK(false, "LibZeRO: this optimizer (", name_of(user),
              ") was not given to setup. Call setup() with it.");
}

bool Optimizers::plain_step_seen() const {
  for (const auto& optimizer : all_) {
    if (optimizer->plain_step_seen()) return true;
  }
  return false;
}

int64_t Optimizers::step(Gradients& gradients, Control& control, float scale, Selection of) {
  std::vector<ShardedOptimizer*> chosen;
  for (size_t i = 0; i < all_.size(); ++i) {
    if (!of || *of == static_cast<int>(i)) chosen.push_back(all_[i].get());
  }
  bool elsewhere = false;
  for (const auto* optimizer : chosen) {
    optimizer->check_ready();
    elsewhere |= optimizer->has_state_elsewhere();
  }
  if (elsewhere) check_together(chosen, control);
  int64_t calls = 0;
  for (auto* optimizer : chosen) calls += optimizer->step(gradients, scale);
  return calls;
}

std::string Optimizers::kernels_run(Selection of) const {
  bool cpu = false, cuda = false;
  for (size_t i = 0; i < all_.size(); ++i) {
    if (of && *of != static_cast<int>(i)) continue;
    cpu |= all_[i]->ran_on_cpu();
    cuda |= all_[i]->ran_on_cuda();
  }
  std::string names;
  if (cpu) names.append(kernels::name_of(isa_));
  if (cuda) names.append(cpu ? "+cuda" : "cuda");
  return names;
}

}  // namespace zero
