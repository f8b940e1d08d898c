// SPDX-License-Identifier: Apache-2.0
#include "plugin/partition/world.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "plugin/partition/rendezvous.h"

namespace zero {
namespace {

// How long a rank that leaves waits for the others to leave too, before it gives its GPU
// connections up.
constexpr auto kExitGrace = std::chrono::seconds(10);

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.rfind("127.", 0) == 0;
}

// NCCL wants a GPU for each rank. For tests on fewer GPUs ranks may share them and meet in host
// memory.
bool ranks_share_gpus() {
  const char* const value = std::getenv("ZERO_SHARE_GPUS");
  if (value == nullptr) return false;
  const std::string text = value;
  TORCH_CHECK(text == "0" || text == "1", "zero: ZERO_SHARE_GPUS is '", text,
              "'; set it to 0 or 1.");
  if (text == "1") {
    TORCH_WARN_ONCE(
        "LibZeRO: ZERO_SHARE_GPUS=1: ranks may share a GPU and communicate through host memory, "
        "which "
        "is slow. For tests only.");
  }
  return text == "1";
}

at::Device device_of(at::DeviceType type, const Rendezvous& place) {
  if (type == at::kCPU) return at::kCPU;
  const int visible = c10::impl::VirtualGuardImpl(type).deviceCount();
  TORCH_CHECK(visible > 0, "zero: no device of type ", type,
              " is visible. Check CUDA_VISIBLE_DEVICES, or use the CPU.");
  if (visible == 1) return at::Device(type, 0);
  if (ranks_share_gpus()) {
    return at::Device(type, static_cast<at::DeviceIndex>(place.local_rank % visible));
  }
  TORCH_CHECK(
      place.local_rank < visible, "zero: local rank ", place.local_rank, " (", place.found_in,
      ") has no device: this host shows ", visible,
      ". Start at most one rank per device; ZERO_SHARE_GPUS=1 lets ranks share devices, slowly.");
  return at::Device(type, static_cast<at::DeviceIndex>(place.local_rank));
}

}  // namespace

// What all worlds of this process share. Never destroyed: it is closed by an exit handler, while
// CUDA, the logger and LibTorch's own statics are still there.
class Process {
 public:
  static Process& get() {
    static auto* process = new Process;
    return *process;
  }

  std::shared_ptr<World> join(at::DeviceType type);
  std::shared_ptr<Communicator> neighbours(at::Device device, int size);
  void close();

 private:
  CommunicatorOptions options(const std::string& name, at::Device device) const;
  void meet();
  template <class Step>
  auto together(const Step& step);
  at::Device choose_device(at::DeviceType type);

  std::mutex mutex_;
  bool met_ = false;
  Rendezvous place_;
  std::chrono::milliseconds timeout_{};
  c10::intrusive_ptr<c10d::Store> store_;
  std::shared_ptr<Whereabouts> whereabouts_;
  std::unique_ptr<Control> control_;
  std::map<at::DeviceType, std::shared_ptr<World>> worlds_;
  std::map<std::pair<at::DeviceType, int>, std::shared_ptr<Communicator>> neighbours_;  // by size
};

CommunicatorOptions Process::options(const std::string& name, at::Device device) const {
  return {name,
          device,
          place_.rank,
          place_.world_size,
          timeout_,
          is_loopback(place_.master_addr),
          ranks_share_gpus(),
          whereabouts_};
}

void Process::meet() {
  if (met_) return;
  place_ = Rendezvous::from_environment();
  timeout_ = timeout_from_environment();
  if (place_.world_size > 1) {
    c10d::TCPStoreOptions tcp;
    tcp.port = place_.master_port;
    tcp.isServer = place_.rank == 0 && !place_.agent_listens;
    tcp.numWorkers = place_.world_size;
    tcp.timeout = timeout_;
    store_ = c10::make_intrusive<c10d::TCPStore>(place_.master_addr, tcp);
    store_ = c10::make_intrusive<c10d::PrefixStore>("zero/" + place_.attempt, store_);
  }
  whereabouts_ = std::make_shared<Whereabouts>(place_.rank, place_.world_size, store_);
  control_ = std::make_unique<Control>(options("control", at::kCPU), store_);
  met_ = true;
}

// Runs a step of joining and says in its error where the ranks were to meet.
template <class Step>
auto Process::together(const Step& step) {
  try {
    return step();
  } catch (const RankMismatch&) {
    throw;
  } catch (const c10::Error& error) {
    if (place_.world_size == 1) throw;
    TORCH_CHECK(false, "zero: rank ", place_.rank, " of ", place_.world_size, " (", place_.found_in,
                ") could not join the others at ", place_.master_addr, ":", place_.master_port,
                " (timeout ", std::chrono::duration_cast<std::chrono::seconds>(timeout_).count(),
                " s): ", error.what_without_backtrace(), "\nCheck that all ", place_.world_size,
                " ranks were started, that MASTER_ADDR is the host of rank 0, and that "
                "MASTER_PORT is free there and reachable.");
  }
}

// A rank without a device must not leave the others waiting for its connections.
at::Device Process::choose_device(at::DeviceType type) {
  at::Device device = at::kCPU;
  std::optional<std::string> problem;
  try {
    device = device_of(type, place_);
  } catch (const c10::Error& error) {
    problem = error.what_without_backtrace();
  }
  control_->raise_together(problem);
  return device;
}

std::shared_ptr<World> Process::join(at::DeviceType type) {
  const std::lock_guard lock(mutex_);
  if (const auto known = worlds_.find(type); known != worlds_.end()) return known->second;
  const std::string kind = c10::DeviceTypeName(type, /*lower_case=*/true);
  together([&] {
    meet();
    control_->barrier("join on " + kind);
  });
  const at::Device device = choose_device(type);
  const auto world = together([&] {
    std::shared_ptr<World> joined(new World(
        place_.local_rank, options(kind + "/gather", device), options(kind + "/reduce", device),
        options(kind + "/rounds", at::kCPU), *control_, store_));
    // Keeps rank 0, which holds the meeting place, until everyone is connected.
    control_->barrier("joined on " + kind);
    return joined;
  });
  if (worlds_.empty() && place_.world_size > 1) std::atexit([] { Process::get().close(); });
  return worlds_[type] = world;
}

std::shared_ptr<Communicator> Process::neighbours(at::Device device, int size) {
  TORCH_CHECK(size >= 1 && place_.world_size % size == 0, "LibZeRO: ", place_.world_size,
              place_.world_size == 1 ? " rank" : " ranks", " cannot be divided into groups of ",
              size, ". Start a multiple of ", size, " ranks, or make the groups smaller.");
  const std::lock_guard lock(mutex_);
  auto& group = neighbours_[{device.type(), size}];
  if (group) return group;
  const int place = place_.rank % size;
  std::string name = c10::DeviceTypeName(device.type(), /*lower_case=*/true);
  name.append("/neighbours ").append(std::to_string(place_.rank - place)).append(" to ");
  name.append(std::to_string(place_.rank - place + size - 1));
  CommunicatorOptions options = this->options(name, device);
  options.rank = place;
  options.world_size = size;
  group = together([&] { return std::make_shared<Communicator>(options, store_); });
  return group;
}

void Process::close() {
  const std::lock_guard lock(mutex_);
  whereabouts_->leave();
  try {
    const auto deadline = std::chrono::steady_clock::now() + timeout_;
    bool all_leave = true;
    for (const auto& [type, world] : worlds_) {
      if (type == at::kCPU) continue;  // Gloo's calls are finished when they return
      while (!(world->gather().idle() && world->reduce().idle()) &&
             std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (all_leave) {
        try {
          control_->set_timeout(kExitGrace);
          control_->barrier("end of the process");
        } catch (const std::exception&) {
          all_leave = false;
        }
      }
    }
    for (const auto& [type, world] : worlds_) {
      world->gather().close(all_leave);
      world->reduce().close(all_leave);
      if (world->rounds() != nullptr) world->rounds()->close(all_leave);
    }
    for (const auto& [key, group] : neighbours_) group->close(all_leave);
    control_->close(all_leave);
  } catch (const std::exception& error) {
    TORCH_WARN("zero: closing the connections failed: ", error.what());
  }
  store_.reset();
}

World::World(int local_rank, const CommunicatorOptions& gather, const CommunicatorOptions& reduce,
             const CommunicatorOptions& rounds, Control& control,
             const c10::intrusive_ptr<c10d::Store>& store)
    : local_rank_(local_rank),
      gather_(gather, store),
      reduce_(reduce, store),
      control_(control),
      whereabouts_(gather.whereabouts) {
  if (world_size() > 1) rounds_ = std::make_unique<Rounds>(rounds, gather_.blocks(), store);
}

std::shared_ptr<World> World::join(at::DeviceType type) { return Process::get().join(type); }

std::shared_ptr<Communicator> World::neighbours(int size) {
  return Process::get().neighbours(device(), size);
}

}  // namespace zero
