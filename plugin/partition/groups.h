// SPDX-License-Identifier: Apache-2.0
// Makes the c10d backend behind a communicator, and waits for its work. Both connect to all other
// ranks before they return.
#pragma once

#include <c10/util/Exception.h>

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "plugin/partition/communicator.h"
#include "plugin/partition/whereabouts.h"

namespace zero {

c10::intrusive_ptr<c10d::Backend> make_gloo_group(const CommunicatorOptions& options,
                                                  const c10::intrusive_ptr<c10d::Store>& store);
c10::intrusive_ptr<c10d::Backend> make_nccl_group(const CommunicatorOptions& options,
                                                  const c10::intrusive_ptr<c10d::Store>& store);

// A collective did not come to its end; the text says who stands where.
class WaitFailed : public c10::Error {
 public:
  explicit WaitFailed(const std::string& text) : c10::Error(text, nullptr) {}
};

// `call` names the work: "all_gather of 16 Float". Throws WaitFailed.
void wait_for(c10d::Work& work, const std::string& call, const CommunicatorOptions& options);

}  // namespace zero
