// SPDX-License-Identifier: Apache-2.0
#include "plugin/paging/page_layout.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

namespace zero {

namespace {

constexpr int64_t kAlignment =
    256;  // bytes; what a 128-byte cache line pair and NCCL's and CUDA's vector loads like

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

struct StorageGroup {
  std::vector<NamedParameter> parameters;
};

// All storages in registration order, each with its parameters.
std::vector<StorageGroup> group_by_storage(const std::vector<NamedParameter>& parameters) {
  std::vector<StorageGroup> groups;
  std::unordered_map<const c10::StorageImpl*, size_t> index;
  for (const auto& parameter : parameters) {
    if (parameter.tensor.numel() == 0) continue;
    const auto* storage = parameter.tensor.storage().unsafeGetStorageImpl();
    const auto [found, is_new] = index.try_emplace(storage, groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].parameters.push_back(parameter);
  }
  return groups;
}

at::Tensor flat_view(const at::Tensor& tensor) {
  at::NoGradGuard no_grad;
  const auto numel = static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size());
  return at::empty({0}, tensor.options()).set_(tensor.storage(), 0, {numel}, {1});
}

int optimizer_of(const StorageGroup& group) {
  for (const auto& parameter : group.parameters) {
    if (parameter.optimizer >= 0) return parameter.optimizer;
  }
  return -1;
}

void check_group(const StorageGroup& group) {
  auto parameters = group.parameters;
  for (const auto& parameter : parameters) {
    TORCH_CHECK(parameter.tensor.dtype() == parameters.front().tensor.dtype(),
                "LibZeRO: parameters '", parameters.front().name, "' and '", parameter.name,
                "' share one storage but have different dtypes. Give each a storage of its own "
                "(clone one of them).");
    const int optimizer = optimizer_of(group);
    TORCH_CHECK(
        parameter.optimizer < 0 || parameter.optimizer == optimizer, "LibZeRO: parameter '",
        parameter.name,
        "' shares its storage with one of another optimizer. Give each a storage of its own "
        "(clone one of them), or one optimizer for both.");
    TORCH_CHECK(!parameter.trainable || parameter.tensor.is_non_overlapping_and_dense(),
                "LibZeRO: parameter '", parameter.name, "' has gaps or overlaps in memory (sizes ",
                parameter.tensor.sizes(), ", strides ", parameter.tensor.strides(),
                "), so its gradient has no place. Register a contiguous clone.");
  }
  std::erase_if(parameters, [](const auto& parameter) { return !parameter.trainable; });
  std::sort(parameters.begin(), parameters.end(), [](const auto& a, const auto& b) {
    return a.tensor.storage_offset() < b.tensor.storage_offset();
  });
  for (size_t i = 1; i < parameters.size(); ++i) {
    const auto& before = parameters[i - 1];
    const auto& after = parameters[i];
    TORCH_CHECK(
        before.tensor.storage_offset() + before.tensor.numel() <= after.tensor.storage_offset(),
        "LibZeRO: parameters '", before.name, "' and '", after.name,
        "' overlap in memory. Tie weights by registering the same tensor twice, not by views.");
  }
}

class Planner {
 public:
  explicit Planner(const LayoutOptions& options) : options_(options) {}

  void place(const StorageGroup& group) {
    const auto& first = group.parameters.front().tensor;
    auto dtype = first.scalar_type();
    if (dtype == at::kFloat && options_.compute_dtype) dtype = *options_.compute_dtype;
    const bool trainable = std::any_of(group.parameters.begin(), group.parameters.end(),
                                       [](const auto& parameter) { return parameter.trainable; });
    const auto element = static_cast<int64_t>(c10::elementSize(dtype));
    const at::Tensor source = flat_view(first);
    const bool stays = source.numel() <= options_.stays_up_to &&
                       source.numel() <= options_.stays_in_all - staying_;
    if (stays) staying_ += source.numel();
    PageLayout& page =
        open_page({dtype, trainable, stays, optimizer_of(group)}, source.numel() * element);

    StorageSlice storage;
    storage.source = source;
    storage.offset = page.numel;
    storage.numel = source.numel();
    for (const auto& parameter : group.parameters) {
      storage.what += (storage.what.empty() ? "'" : ", '") + parameter.name + "'";
      const at::Tensor& tensor = parameter.tensor;
      ParameterSlice slice;
      slice.parameter = parameter;
      slice.storage = static_cast<int>(page.storages.size());
      slice.offset = page.numel + tensor.storage_offset();
      slice.numel = tensor.numel();
      slice.sizes = tensor.sizes().vec();
      slice.strides = tensor.strides().vec();
      slice.storage_offset = tensor.storage_offset();
      page.parameters.push_back(std::move(slice));
    }
    page.numel += round_up(storage.numel, kAlignment / element);
    page.storages.push_back(std::move(storage));
  }

  std::vector<PageLayout> finish() {
    for (auto& page : pages_) {
      const auto element = static_cast<int64_t>(c10::elementSize(page.dtype));
      page.numel = round_up(page.numel, options_.shards * (kAlignment / element));
      page.shard_numel = page.numel / options_.shards;
    }
    return std::move(pages_);
  }

 private:
  using Kind = std::tuple<at::ScalarType, bool, bool, int>;  // dtype, trainable, stays, optimizer

  // The last page of this kind if `bytes` more fit into it, else a new one.
  PageLayout& open_page(const Kind& kind, int64_t bytes) {
    const auto [found, is_new] = open_.try_emplace(kind, 0);
    if (!is_new && pages_[found->second].bytes() + bytes <= options_.page_bytes)
      return pages_[found->second];
    found->second = pages_.size();
    pages_.emplace_back();
    std::tie(pages_.back().dtype, pages_.back().trainable, pages_.back().stays,
             pages_.back().optimizer) = kind;
    return pages_.back();
  }

  LayoutOptions options_;
  std::vector<PageLayout> pages_;
  std::map<Kind, size_t> open_;
  int64_t staying_ = 0;  // elements
};

}  // namespace

std::vector<PageLayout> plan_pages(const std::vector<NamedParameter>& parameters,
                                   const LayoutOptions& options) {
  Planner planner(options);
  for (const auto& group : group_by_storage(parameters)) {
    check_group(group);
    planner.place(group);
  }
  return planner.finish();
}

}  // namespace zero
