// SPDX-License-Identifier: Apache-2.0
// Collectives between all ranks over one group of connections: NCCL for tensors on GPUs, Gloo for
// tensors on the CPU.
//
// Order: every rank makes the same calls in the same order; the caller serialises calls on one
// communicator. Two communicators are independent of each other. Stream: on a GPU the work is
// enqueued on the current CUDA stream and the host does not wait; no other stream sees the tensors.
// On the CPU a call returns when its result is there. Tensors are contiguous and on device(). With
// one rank nothing is sent: outputs are copies of inputs. Sums on the CPU are taken in rank order,
// so their bits do not depend on how a gradient is cut into parts. Failure: c10::Error that names
// call, communicator and rank; after it the communicator is of no further use. On a GPU a lost rank
// shows when the timeout ends: NCCL's watchdog then ends this process with its report.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <chrono>
#include <memory>
#include <string>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace zero {

class Whereabouts;

// What every communicator of a process is made with.
struct CommunicatorOptions {
  std::string name;  // for messages, and to keep communicators apart in the store
  at::Device device = at::kCPU;
  int rank = 0;
  int world_size = 1;
  std::chrono::milliseconds timeout{};
  bool this_host_only = false;  // all ranks meet at a loopback address: connections stay on it
  bool through_host = false;    // ranks share GPUs, which NCCL refuses: copies to the host and Gloo
  std::shared_ptr<Whereabouts> whereabouts;  // for errors; may be empty
};

class Communicator {
 public:
  // Connects to the other ranks, which must do the same; `store` may be empty with one rank.
  Communicator(CommunicatorOptions options, const c10::intrusive_ptr<c10d::Store>& store);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  // Any dtype. out: [world_size * n], in: [n]. `in` may be this rank's own part of `out`.
  void all_gather(const at::Tensor& out, const at::Tensor& in);
  // Sum, fp32. out: [n], in: [world_size * n]. `out` may be this rank's own part of `in`; the rest
  // of `in` is kept.
  void reduce_scatter(const at::Tensor& out, const at::Tensor& in);
  // Sum in place, fp32 or fp64. The result has the same bits on every rank.
  void all_reduce(const at::Tensor& t);
  // Any dtype. out, in: [world_size * n], apart from each other. Part r of `in` goes to rank r; part r
  // of `out` has come from it.
  void all_to_all(const at::Tensor& out, const at::Tensor& in);
  // Any dtype.
  void broadcast(const at::Tensor& t, int root);

  int rank() const { return options_.rank; }
  int world_size() const { return options_.world_size; }
  at::Device device() const { return options_.device; }

  // Whether a call returns only when all ranks have made it.
  bool blocks() const { return world_size() > 1 && (device().is_cpu() || host_); }

  // Whether everything enqueued so far has finished on the device.
  bool idle() const;
  void set_timeout(std::chrono::milliseconds timeout);
  // Frees the connections; calls after it fail. In good order all ranks close together; otherwise
  // what is still enqueued is given up.
  void close(bool in_good_order);

 private:
  struct Group;
  void check(const char* call, const at::Tensor& t) const;
  void check_parts(const char* call, const at::Tensor& whole, const at::Tensor& part) const;
  template <class Work>
  void run(const char* call, const at::Tensor& t, const Work& work);
  // Runs `work` on host copies of its tensors. Blocks.
  template <class Work>
  void run_on_host(const at::Tensor& out, const at::Tensor& in, const Work& work);

  CommunicatorOptions options_;
  std::unique_ptr<Group> group_;        // empty with one rank
  std::unique_ptr<Communicator> host_;  // instead of a group, when the way is through the host
  bool closed_ = false;
};

}  // namespace zero
