// SPDX-License-Identifier: Apache-2.0
// Which parameter lies where: storages of one dtype are laid end to end in pages of about
// `page_bytes`, in the order in which the model registered them. The unit is the storage, so tied
// weights, views and flat weights of recurrent networks stay what they are. A page is padded so
// that each rank's shard begins on a 256-byte boundary. Small storages can be given pages of their own
// that stay whole.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace zero {

struct NamedParameter {
  std::string name;        // all names of a tied parameter, joined by " = "
  at::Tensor tensor;       // the user's own handle
  bool trainable = false;  // requires a gradient and an optimizer updates it
  int optimizer = -1;      // which one holds it, also while it is frozen; -1: none
};

struct ParameterSlice {
  NamedParameter parameter;
  int storage = 0;     // index into PageLayout::storages
  int64_t offset = 0;  // elements from the beginning of the page
  int64_t numel = 0;
  // Geometry inside its storage, as it was at setup. The tensor itself may be given another storage
  // at any time.
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t storage_offset = 0;
};

struct StorageSlice {
  at::Tensor source;   // 1-D over the whole original storage, in its original dtype and place
  int64_t offset = 0;  // elements from the beginning of the page
  int64_t numel = 0;
  std::string what;  // names of its parameters, for errors
};

struct PageLayout {
  at::ScalarType dtype{};  // of the compute weights
  bool trainable = false;
  bool stays = false;       // small parameters that stay whole
  int optimizer = -1;       // whose parameters these are: no page has those of two
  int64_t numel = 0;        // elements with padding, a multiple of the number of shards
  int64_t shard_numel = 0;  // elements of one rank
  std::vector<StorageSlice> storages;
  std::vector<ParameterSlice> parameters;
  int64_t bytes() const { return numel * static_cast<int64_t>(c10::elementSize(dtype)); }
};

struct LayoutOptions {
  int64_t page_bytes = 0;
  int shards = 1;
  std::optional<at::ScalarType>
      compute_dtype;         // fp32 parameters are held in this dtype; others keep theirs
  int64_t stays_up_to = 0;   // elements of a storage that stays whole; 0: none does
  int64_t stays_in_all = 0;  // elements of all of them; the first ones are taken
};

// Parameters without elements are left out. Throws when parameters of one storage have different
// dtypes or optimizers, or when two trainable parameters overlap: their gradients could not be told
// apart.
std::vector<PageLayout> plan_pages(const std::vector<NamedParameter>& parameters,
                                   const LayoutOptions& options);

}  // namespace zero
