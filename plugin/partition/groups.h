// SPDX-License-Identifier: Apache-2.0
// Makes the c10d backend behind a communicator. Both connect to all other ranks before they return.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "plugin/partition/communicator.h"

namespace zero {

c10::intrusive_ptr<c10d::Backend> make_gloo_group(const CommunicatorOptions& options,
                                                  const c10::intrusive_ptr<c10d::Store>& store);
c10::intrusive_ptr<c10d::Backend> make_nccl_group(const CommunicatorOptions& options,
                                                  const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace zero
