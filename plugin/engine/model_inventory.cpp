// SPDX-License-Identifier: Apache-2.0
#include "plugin/engine/model_inventory.h"

#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include "plugin/optimizer/update_rules.h"
#include "plugin/paging/paged_storage.h"

namespace zero {

namespace {

using OwnerOf = std::unordered_map<const c10::TensorImpl*, int>;

// Which optimizer holds a tensor.
OwnerOf owners(const std::vector<torch::optim::Optimizer*>& optimizers) {
  OwnerOf owner;
  for (size_t i = 0; i < optimizers.size(); ++i) {
    for (const auto& group : optimizers[i]->param_groups()) {
      for (const auto& parameter : group.params()) {
        const auto [found, is_new] =
            owner.try_emplace(parameter.unsafeGetTensorImpl(), static_cast<int>(i));
        if (!is_new && found->second == static_cast<int>(i)) {
          TORCH_WARN("LibZeRO: the optimizer holds a tensor of sizes ", parameter.sizes(),
                     " twice (a model lists it once for each of its names). LibTorch's step() "
                     "updates it twice, strategy.step() once: give it to the optimizer once.");
        }
        TORCH_CHECK(found->second == static_cast<int>(i), "LibZeRO: a parameter of sizes ",
                    parameter.sizes(), " is in optimizers ", found->second, " and ", i,
                    " (counted from 0). Its master weights belong to one optimizer: take it out of "
                    "the other.");
      }
    }
  }
  return owner;
}

void check_owned(const std::vector<torch::optim::Optimizer*>& optimizers, const ImplSet& models) {
  std::ostringstream foreign;
  int count = 0;
  for (size_t optimizer = 0; optimizer < optimizers.size(); ++optimizer) {
    const auto& groups = optimizers[optimizer]->param_groups();
    for (size_t group = 0; group < groups.size(); ++group) {
      const auto& parameters = groups[group].params();
      for (size_t i = 0; i < parameters.size(); ++i) {
        if (models.count(parameters[i].unsafeGetTensorImpl()) > 0 || ++count > 5) continue;
        foreign << " [";
        if (optimizers.size() > 1) foreign << "optimizer " << optimizer << ", ";
        foreign << "group " << group << ", parameter " << i << ", sizes " << parameters[i].sizes()
                << "]";
      }
    }
  }
  TORCH_CHECK(count == 0, "LibZeRO: ", count,
              " tensors of the optimizer are no parameters of the model:", foreign.str(),
              ". Build the optimizer from model->parameters() of the model that is set up.");
}

// A tensor that shares a parameter's storage (a detached copy, a view kept by the module) stays
// behind when the parameter moves into its page.
void check_storages(const std::vector<NamedParameter>& parameters) {
  std::unordered_map<const c10::StorageImpl*, size_t> holders;
  for (const auto& parameter : parameters) {
    TORCH_CHECK(paged_storage_of(parameter.tensor) == nullptr, "LibZeRO: parameter '",
                parameter.name,
                "' is under another strategy already. Call teardown() on that one first.");
    ++holders[parameter.tensor.storage().unsafeGetStorageImpl()];
  }
  for (const auto& parameter : parameters) {
    const auto& storage = parameter.tensor.storage();
    if (parameter.tensor.numel() == 0 ||
        storage.use_count() <= holders[storage.unsafeGetStorageImpl()])
      continue;
    TORCH_WARN("LibZeRO: another tensor shares the memory of parameter '", parameter.name,
               "' (detach(), data() or a view made before setup). It keeps the old values: make it "
               "after setup, or in "
               "forward.");
  }
}

// Note [Normalisation with running statistics]
// LibTorch's batch norm takes 16-bit inputs with weights in the dtype of its running statistics
// only, and those must stay fp32: what is added to them in a step is less than 16 bits can tell. So
// the own parameters of a module that keeps running statistics in fp32 stay fp32 too, whatever the
// precision. The module is known by the names of its buffers, which are LibTorch's own.
ImplSet parameters_beside_statistics(const torch::nn::Module& model) {
  ImplSet kept;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    bool has_statistics = false;
    for (const auto& buffer : module->named_buffers(/*recurse=*/false)) {
      has_statistics |= (buffer.key() == "running_mean" || buffer.key() == "running_var") &&
                        buffer.value().defined() && buffer.value().scalar_type() == at::kFloat;
    }
    if (!has_statistics) continue;
    for (const auto& parameter : module->parameters(/*recurse=*/false))
      kept.insert(parameter.unsafeGetTensorImpl());
  }
  return kept;
}

}  // namespace

std::vector<NamedParameter> inventory(const std::vector<torch::nn::Module*>& models,
                                      const std::vector<torch::optim::Optimizer*>& optimizers) {
  std::vector<NamedParameter> parameters;
  std::unordered_map<const c10::TensorImpl*, size_t> index;
  const OwnerOf owner = owners(optimizers);
  ImplSet owned, kept;
  for (const auto* model : models) kept.merge(parameters_beside_statistics(*model));
  for (size_t model = 0; model < models.size(); ++model) {
    const std::string prefix =
        models.size() > 1 ? "models[" + std::to_string(model) + "]." : std::string();
    for (const auto& item : models[model]->named_parameters(/*recurse=*/true)) {
      const at::Tensor& tensor = item.value();
      if (!tensor.defined()) continue;
      const auto* impl = tensor.unsafeGetTensorImpl();
      owned.insert(impl);
      const auto [found, is_new] = index.try_emplace(impl, parameters.size());
      if (is_new) {
        const auto holder = owner.find(impl);
        const int optimizer = holder == owner.end() ? -1 : holder->second;
        parameters.push_back({prefix + item.key(), tensor, tensor.requires_grad() && optimizer >= 0,
                              optimizer, kept.count(impl) > 0});
      } else {
        parameters[found->second].name += " = " + prefix + item.key();
      }
    }
  }
  size_t modules = 0, held = 0;
  // Without itself: a model on the stack cannot be listed.
  for (const auto* model : models) modules += 1 + model->modules(/*include_self=*/false).size();
  for (const auto* optimizer : optimizers) {
    for (const auto& group : optimizer->param_groups()) held += group.params().size();
  }
  TORCH_CHECK(!parameters.empty(), "LibZeRO: 0 parameters are registered in the model's ", modules,
              " modules",
              optimizers.empty()
                  ? std::string(".")
                  : ", and the optimizer holds " + std::to_string(held) + " tensors.",
              " Register submodules with register_module and parameters with register_parameter in "
              "the module's constructor.");
  check_owned(optimizers, owned);
  check_storages(parameters);
  return parameters;
}

void require_known(const torch::nn::Module& model, const ImplSet& known) {
  for (const auto& item : model.named_parameters(/*recurse=*/true)) {
    TORCH_CHECK(known.count(item.value().unsafeGetTensorImpl()) > 0, "LibZeRO: parameter '",
                item.key(),
                "' was registered or replaced after setup, so nothing would update it. Call "
                "teardown(), then setup() with an optimizer over model->parameters().");
  }
}

ImplSet impls_of(const std::vector<torch::nn::Module*>& models) {
  ImplSet impls;
  for (const auto* model : models) {
    for (const auto& parameter : model->parameters()) impls.insert(parameter.unsafeGetTensorImpl());
  }
  return impls;
}

std::string signature(const std::vector<NamedParameter>& parameters) {
  std::ostringstream text;
  for (const auto& parameter : parameters) {
    text << parameter.name << ' ' << parameter.tensor.sizes() << ' ' << parameter.tensor.dtype()
         << (parameter.trainable ? " trainable" : " frozen") << ", optimizer "
         << parameter.optimizer << '\n';
  }
  return text.str();
}

std::string signature(const std::vector<torch::optim::Optimizer*>& optimizers) {
  std::ostringstream text;
  for (const auto* optimizer : optimizers) {
    text << name_of(*optimizer) << '\n';
    for (const auto& group : optimizer->param_groups()) {
      text << group.params().size() << " parameters";
      // Options of a user's own class need not know their rate.
      if (rule_of(*optimizer) != nullptr) text << ", learning rate " << group.options().get_lr();
      text << '\n';
    }
  }
  return text.str();
}

}  // namespace zero
