// SPDX-License-Identifier: Apache-2.0
#include "plugin/engine/model_inventory.h"

#include <sstream>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>

#include "plugin/paging/paged_storage.h"

namespace zero {

namespace {

using ImplSet = std::unordered_set<const c10::TensorImpl*>;

ImplSet parameters_of(const torch::optim::Optimizer& optimizer) {
  ImplSet parameters;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) parameters.insert(parameter.unsafeGetTensorImpl());
  }
  return parameters;
}

void check_owned(const torch::optim::Optimizer& optimizer, const ImplSet& model) {
  std::ostringstream foreign;
  int count = 0;
  for (size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    const auto& parameters = optimizer.param_groups()[group].params();
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (model.count(parameters[i].unsafeGetTensorImpl()) > 0) continue;
      if (++count <= 5)
        foreign << " [group " << group << ", parameter " << i << ", sizes " << parameters[i].sizes()
                << "]";
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

std::vector<NamedParameter> inventory(const torch::nn::Module& model,
                                      const torch::optim::Optimizer* optimizer) {
  std::vector<NamedParameter> parameters;
  std::unordered_map<const c10::TensorImpl*, size_t> index;
  const ImplSet optimized = optimizer != nullptr ? parameters_of(*optimizer) : ImplSet();
  const ImplSet kept = parameters_beside_statistics(model);
  ImplSet owned;
  for (const auto& item : model.named_parameters(/*recurse=*/true)) {
    const at::Tensor& tensor = item.value();
    if (!tensor.defined()) continue;
    const auto* impl = tensor.unsafeGetTensorImpl();
    owned.insert(impl);
    const auto [found, is_new] = index.try_emplace(impl, parameters.size());
    if (is_new) {
      parameters.push_back({item.key(), tensor, tensor.requires_grad() && optimized.count(impl) > 0,
                            kept.count(impl) > 0});
    } else {
      parameters[found->second].name += " = " + item.key();
    }
  }
  TORCH_CHECK(
      !parameters.empty(),
      "LibZeRO: the model has no registered parameter. Register submodules with "
      "register_module and parameters with register_parameter in the module's constructor.");
  if (optimizer != nullptr) check_owned(*optimizer, owned);
  check_storages(parameters);
  return parameters;
}

std::string signature(const std::vector<NamedParameter>& parameters) {
  std::ostringstream text;
  for (const auto& parameter : parameters) {
    text << parameter.name << ' ' << parameter.tensor.sizes() << ' ' << parameter.tensor.dtype()
         << (parameter.trainable ? " trainable" : " frozen") << '\n';
  }
  return text.str();
}

std::string signature(const torch::optim::Optimizer& optimizer) {
  std::ostringstream text;
  text << c10::demangle(typeid(optimizer).name()) << '\n';
  for (const auto& group : optimizer.param_groups()) {
    text << group.params().size() << " parameters, learning rate " << group.options().get_lr()
         << '\n';
  }
  return text.str();
}

}  // namespace zero
