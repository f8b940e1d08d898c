// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "plugin/partition/groups.h"

namespace zero {

c10::intrusive_ptr<c10d::Backend> make_gloo_group(const CommunicatorOptions& options,
                                                  const c10::intrusive_ptr<c10d::Store>& store) {
  auto gloo = c10d::ProcessGroupGloo::Options::create(options.timeout);
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != '\0') {
    gloo->devices = {c10d::ProcessGroupGloo::createDeviceForInterface(interface)};
  } else if (options.this_host_only) {
    // A host's own name may resolve to an address that is not its own, or not at all.
    gloo->devices = {c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")};
  } else {
    gloo->devices = {c10d::ProcessGroupGloo::createDefaultDevice()};
  }
  gloo->threads = 1;  // calls on one communicator follow each other
  return c10::make_intrusive<c10d::ProcessGroupGloo>(
      c10::make_intrusive<c10d::PrefixStore>(options.name, store), options.rank, options.world_size,
      gloo);
}

}  // namespace zero
