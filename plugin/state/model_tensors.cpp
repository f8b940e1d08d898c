// SPDX-License-Identifier: Apache-2.0
#include "plugin/state/model_tensors.h"

#include <map>
#include <tuple>

namespace zero {

std::vector<ModelTensor> model_tensors(const torch::nn::Module& model) {
  using View = std::tuple<const void*, int64_t, std::vector<int64_t>, std::vector<int64_t>>;
  std::vector<ModelTensor> tensors;
  std::map<View, size_t> known;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    // Tensors without elements may share a storage and still be different ones.
    const void* const identity =
        tensor.numel() > 0 ? static_cast<const void*>(tensor.storage().unsafeGetStorageImpl())
                           : static_cast<const void*>(tensor.unsafeGetTensorImpl());
    const auto [at, is_new] = known.try_emplace(
        View{identity, tensor.storage_offset(), tensor.sizes().vec(), tensor.strides().vec()},
        tensors.size());
    if (is_new) tensors.push_back({{}, tensor});
    tensors[at->second].names.push_back(name);
  };
  for (const auto& parameter : model.named_parameters()) add(parameter.key(), parameter.value());
  for (const auto& buffer : model.named_buffers()) add(buffer.key(), buffer.value());
  return tensors;
}

}  // namespace zero
