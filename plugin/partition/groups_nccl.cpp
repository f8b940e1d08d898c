// SPDX-License-Identifier: Apache-2.0
#include <c10/cuda/CUDAGuard.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "plugin/partition/groups.h"

namespace zero {

c10::intrusive_ptr<c10d::Backend> make_nccl_group(const CommunicatorOptions& options,
                                                  const c10::intrusive_ptr<c10d::Store>& store) {
  const c10::cuda::CUDAGuard guard(options.device);
  auto nccl = c10d::ProcessGroupNCCL::Options::create();
  nccl->timeout = options.timeout;
  nccl->group_name = options.name;
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      c10::make_intrusive<c10d::PrefixStore>(options.name, store), options.rank, options.world_size,
      nccl);
  // Connect now: an error belongs to joining, and later the meeting place may be gone.
  group->setBoundDeviceId(options.device);
  group->eagerConnectSingleDevice(options.device);
  return group;
}

}  // namespace zero
