// SPDX-License-Identifier: Apache-2.0
#include "plugin/activations/region_listener.h"

#include "plugin/autograd/process_wide.h"

namespace zero {

namespace {

ProcessWide<RegionListener>& listener() {
  static auto* const only = new ProcessWide<RegionListener>;
  return *only;
}

}  // namespace

void set_region_listener(std::shared_ptr<RegionListener> value) {
  listener().set(std::move(value));
}

ObservedRun::ObservedRun(const std::string& region, bool again)
    : region_(region), again_(again), listener_(listener().get()) {
  if (listener_) listener_->run_begins(region_, again_);
  begun_ = std::chrono::steady_clock::now();
}

ObservedRun::~ObservedRun() {
  if (listener_) listener_->run_ends(region_, again_, begun_);
}

}  // namespace zero
