// SPDX-License-Identifier: Apache-2.0
#include "plugin/activations/environment.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <mutex>

namespace zero {

namespace {

constexpr std::array kAutocastDevices{at::kCPU, at::kCUDA};

at::Tensor state_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator& generator, const at::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

// The GPUs whose generators a function may use: those of its arguments and the current one, if this
// process computes on it.
std::vector<at::Device> gpus(const std::vector<at::Device>& devices) {
  std::vector<at::Device> found;
  if (!at::hasCUDA()) return found;
  found = devices;
  const at::Device current = c10::impl::VirtualGuardImpl(at::kCUDA).getDevice();
  if (at::globalContext().getAcceleratorHooksInterface(at::kCUDA).hasPrimaryContext(
          current.index())) {
    found.push_back(current);
  }
  std::erase_if(found, [](const at::Device& device) { return !device.is_cuda(); });
  std::ranges::sort(found, {}, &at::Device::index);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace

Environment::Autocast Environment::current_autocast() {
  Autocast autocast;
  for (size_t i = 0; i < autocast.size(); ++i) {
    autocast[i] = {at::autocast::is_autocast_enabled(kAutocastDevices[i]),
                   at::autocast::get_autocast_dtype(kAutocastDevices[i])};
  }
  return autocast;
}

void Environment::set_autocast(const Autocast& autocast) {
  for (size_t i = 0; i < autocast.size(); ++i) {
    at::autocast::set_autocast_enabled(kAutocastDevices[i], autocast[i].first);
    at::autocast::set_autocast_dtype(kAutocastDevices[i], autocast[i].second);
  }
}

Environment Environment::current(bool with_rng, const std::vector<at::Device>& devices) {
  Environment now;
  now.autocast_ = current_autocast();
  now.cache_ = at::autocast::is_autocast_cache_enabled();
  if (!with_rng) return now;
  const auto add = [&now](const at::Generator& generator) {
    now.generators_.emplace_back(generator, state_of(generator));
  };
  add(at::globalContext().defaultGenerator(at::kCPU));
  for (const at::Device& gpu : gpus(devices)) add(at::globalContext().defaultGenerator(gpu));
  return now;
}

Environment::Restored::Restored(const Environment& wanted)
    : wanted_(wanted),
      autocast_before_(current_autocast()),
      cache_before_(at::autocast::is_autocast_cache_enabled()) {
  for (auto [generator, state] : wanted_.generators_) {
    generators_before_.push_back(state_of(generator));
    set_state(generator, state);
  }
  at::autocast::increment_nesting();
  set_autocast(wanted_.autocast_);
  at::autocast::set_autocast_cache_enabled(wanted_.cache_);
}

Environment::Restored::~Restored() {
  // As a scope of autocast ends: casts of weights live as long as the outermost scope.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  set_autocast(autocast_before_);
  at::autocast::set_autocast_cache_enabled(cache_before_);
  for (size_t i = 0; i < wanted_.generators_.size(); ++i) {
    at::Generator generator = wanted_.generators_[i].first;
    set_state(generator, generators_before_[i]);
  }
}

}  // namespace zero
