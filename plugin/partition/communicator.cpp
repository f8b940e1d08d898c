// SPDX-License-Identifier: Apache-2.0
#include "plugin/partition/communicator.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <sstream>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "plugin/partition/groups.h"

namespace zero {

struct Communicator::Group {
  c10::intrusive_ptr<c10d::Backend> backend;
  std::optional<c10::Event> last;  // after the last call, on a GPU
};

namespace {

// Bytes travel alike for every dtype, also for those that a backend does not know.
at::Tensor bytes(const at::Tensor& t) { return t.view(at::kByte); }

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.const_data_ptr() == b.const_data_ptr();
}

[[noreturn]] void fail(const std::string& call, const CommunicatorOptions& options,
                       const std::exception& error) {
  const auto* with_text = dynamic_cast<const c10::Error*>(&error);
  const Whereabouts* const board = options.whereabouts.get();
  std::ostringstream text;
  text << "zero: " << (board != nullptr ? board->here(call) : call) << " failed on rank "
       << options.rank << " of " << options.world_size << ": "
       << (with_text != nullptr ? with_text->what_without_backtrace() : error.what())
       << (board != nullptr ? board->of_others() : "")
       << "\nAnother rank has probably ended, or made other calls: read its output. If it is only "
          "slow, raise ZERO_TIMEOUT_SECONDS (now "
       << std::chrono::duration_cast<std::chrono::seconds>(options.timeout).count() << ").";
  throw WaitFailed(text.str());
}

at::Tensor part_of(const at::Tensor& whole, int rank, int world_size) {
  const int64_t n = whole.numel() / world_size;
  return whole.view({-1}).narrow(0, rank * n, n);
}

}  // namespace

void wait_for(c10d::Work& work, const std::string& call, const CommunicatorOptions& options) {
  try {
    if (options.whereabouts) {
      options.whereabouts->wait(work, call);
    } else {
      work.wait();
    }
  } catch (const std::exception& error) {
    fail(call, options, error);
  }
}

Communicator::Communicator(CommunicatorOptions options,
                           const c10::intrusive_ptr<c10d::Store>& store)
    : options_(std::move(options)) {
  if (options_.world_size == 1) return;
  if (options_.through_host && !options_.device.is_cpu()) {
    CommunicatorOptions host = options_;
    host.device = at::kCPU;
    host_ = std::make_unique<Communicator>(host, store);
    return;
  }
  group_ = std::make_unique<Group>();
  if (options_.device.is_cpu()) {
    group_->backend = make_gloo_group(options_, store);
    return;
  }
#ifdef LIBZERO_CUDA
  TORCH_CHECK(options_.device.is_cuda(), "zero: no communicator for device ", options_.device,
              "; use a CPU or a CUDA device.");
  group_->backend = make_nccl_group(options_, store);
#else
  TORCH_CHECK(false, "zero: this LibZeRO was built for the CPU only and cannot communicate on ",
              options_.device, ". Build it with LIBZERO_WITH_CUDA=ON, or use the CPU.");
#endif
}

Communicator::~Communicator() = default;

void Communicator::check(const char* call, const at::Tensor& t) const {
  TORCH_CHECK(!closed_, "zero: ", call, " on communicator '", options_.name,
              "' after it was closed: the process is exiting. Finish training before main ends.");
  TORCH_CHECK(t.device() == options_.device && t.is_contiguous() && !t.is_sparse(), "zero: ", call,
              " on communicator '", options_.name, "' needs contiguous tensors on ",
              options_.device, ", not one of shape ", t.sizes(), " and strides ", t.strides(),
              " on ", t.device(), ".");
}

void Communicator::check_parts(const char* call, const at::Tensor& whole,
                               const at::Tensor& part) const {
  check(call, whole);
  check(call, part);
  TORCH_CHECK(whole.scalar_type() == part.scalar_type() &&
                  whole.numel() == part.numel() * options_.world_size,
              "zero: ", call, " on communicator '", options_.name, "' of ", options_.world_size,
              " ranks: a whole of ", whole.numel(), " ", whole.scalar_type(),
              " does not match a part of ", part.numel(), " ", part.scalar_type(),
              ". Pad the whole to a multiple of the ranks.");
  if (part.numel() == 0) return;
  const auto* begin = static_cast<const char*>(whole.const_data_ptr());
  const auto* mine = static_cast<const char*>(part.const_data_ptr());
  const bool apart = mine + part.nbytes() <= begin || begin + whole.nbytes() <= mine;
  TORCH_CHECK(apart || mine == begin + options_.rank * part.nbytes(), "zero: ", call,
              " on communicator '", options_.name,
              "': the part overlaps the whole at another place than that of rank ", options_.rank,
              ".");
}

template <class Work>
void Communicator::run(const char* call, const at::Tensor& t, const Work& work) {
  const at::NoGradGuard no_grad;
  // NCCL looks at the current device; the caller may be on another one.
  const c10::OptionalDeviceGuard guard(
      options_.device.is_cpu() ? std::nullopt : std::optional<at::Device>(options_.device));
  const auto name = [&] {
    std::ostringstream text;
    text << call << " of " << t.numel() << ' ' << t.scalar_type() << " on communicator '"
         << options_.name << "'";
    return text.str();
  };
  // On the CPU, waits until the result is there. NCCL, told to use the current stream, has nothing
  // to wait for and returns no work.
  const auto finish = [&](const c10::intrusive_ptr<c10d::Work>& started) {
    if (started) wait_for(*started, name(), options_);
  };
  try {
    work(finish);
    if (group_ && options_.device.is_cuda()) {
      if (!group_->last) group_->last.emplace(options_.device.type());
      group_->last->record(
          c10::impl::VirtualGuardImpl(options_.device.type()).getStream(options_.device));
    }
  } catch (const WaitFailed&) {
    throw;
  } catch (const std::exception& error) {
    fail(name(), options_, error);
  }
}

template <class Work>
void Communicator::run_on_host(const at::Tensor& out, const at::Tensor& in, const Work& work) {
  const at::NoGradGuard no_grad;
  at::Tensor from = in.cpu();
  at::Tensor to = at::empty(out.sizes(), out.options().device(at::kCPU));
  work(to, from);
  at::Tensor(out).copy_(to);
}

void Communicator::all_gather(const at::Tensor& out, const at::Tensor& in) {
  check_parts("all_gather", out, in);
  if (out.numel() == 0) return;
  if (host_) {
    return run_on_host(out, in, [&](auto& to, auto& from) { host_->all_gather(to, from); });
  }
  run("all_gather", out, [&](const auto& finish) {
    if (!group_) {
      if (!same_memory(out, in)) out.view({-1}).copy_(in.view({-1}));
      return;
    }
    at::Tensor whole = bytes(out);
    at::Tensor part = bytes(in);
    c10d::AllgatherOptions on_this_stream;
    on_this_stream.asyncOp = false;
    finish(group_->backend->_allgather_base(whole, part, on_this_stream));
  });
}

void Communicator::reduce_scatter(const at::Tensor& out, const at::Tensor& in) {
  check_parts("reduce_scatter", in, out);
  TORCH_CHECK(in.scalar_type() == at::kFloat, "zero: reduce_scatter sums in fp32, not in ",
              in.scalar_type(), ". Convert the gradient first.");
  if (in.numel() == 0) return;
  if (host_) {
    return run_on_host(out, in, [&](auto& to, auto& from) { host_->reduce_scatter(to, from); });
  }
  run("reduce_scatter", in, [&](const auto& finish) {
    if (!group_) {
      if (!same_memory(out, in)) out.view({-1}).copy_(in.view({-1}));
      return;
    }
    at::Tensor whole = in.view({-1});
    at::Tensor part = out.view({-1});
    if (options_.device.is_cuda()) {
      c10d::ReduceScatterOptions on_this_stream;
      on_this_stream.asyncOp = false;
      finish(group_->backend->_reduce_scatter_base(part, whole, on_this_stream));
      return;
    }
    // Gloo's own reduce-scatter is an all-reduce of a copy: twice the traffic, in an order that
    // depends on the cut.
    std::vector<int64_t> equal;
    at::Tensor parts = at::empty_like(whole);
    finish(group_->backend->alltoall_base(parts, whole, equal, equal));
    at::add_out(part, part_of(parts, 0, options_.world_size),
                part_of(parts, 1, options_.world_size));
    for (int rank = 2; rank < options_.world_size; ++rank) {
      part.add_(part_of(parts, rank, options_.world_size));
    }
  });
}

void Communicator::all_reduce(const at::Tensor& t) {
  check("all_reduce", t);
  TORCH_CHECK(t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble,
              "zero: all_reduce sums in fp32 or fp64, not in ", t.scalar_type(),
              ". Convert the tensor first.");
  if (host_) {
    return run_on_host(t, t, [&](auto& to, auto& from) { host_->all_reduce(to.copy_(from)); });
  }
  if (!group_ || t.numel() == 0) return;
  run("all_reduce", t, [&](const auto& finish) {
    at::Tensor flat = t.view({-1});
    if (options_.device.is_cuda()) {
      c10d::AllreduceOptions on_this_stream;
      on_this_stream.asyncOp = false;
      std::vector<at::Tensor> one = {flat};
      finish(group_->backend->allreduce(one, on_this_stream));
      return;
    }
    const int64_t ranks = options_.world_size;
    const int64_t n = (flat.numel() + ranks - 1) / ranks;
    std::vector<int64_t> equal;
    at::Tensor whole = flat;
    if (n * ranks != flat.numel()) {
      whole = at::zeros({n * ranks}, flat.options());
      whole.narrow(0, 0, flat.numel()).copy_(flat);
    }
    at::Tensor parts = at::empty_like(whole);
    finish(group_->backend->alltoall_base(parts, whole, equal, equal));
    at::Tensor mine = part_of(parts, 0, options_.world_size);
    for (int rank = 1; rank < options_.world_size; ++rank) {
      mine.add_(part_of(parts, rank, options_.world_size));
    }
    at::Tensor whole_bytes = bytes(whole);
    at::Tensor mine_bytes = bytes(mine);
    finish(group_->backend->_allgather_base(whole_bytes, mine_bytes));
    if (!same_memory(whole, flat)) flat.copy_(whole.narrow(0, 0, flat.numel()));
  });
}

void Communicator::all_to_all(const at::Tensor& out, const at::Tensor& in) {
  check("all_to_all", out);
  check("all_to_all", in);
  TORCH_CHECK(out.scalar_type() == in.scalar_type() && out.numel() == in.numel() &&
                  in.numel() % options_.world_size == 0,
              "zero: all_to_all on communicator '", options_.name, "' of ", options_.world_size,
              " ranks: ", in.numel(), " ", in.scalar_type(), " cannot be exchanged for ",
              out.numel(), " ", out.scalar_type(), ". Pad both to a multiple of the ranks.");
  if (in.numel() == 0) return;
  if (host_) {
    return run_on_host(out, in, [&](auto& to, auto& from) { host_->all_to_all(to, from); });
  }
  run("all_to_all", in, [&](const auto& finish) {
    at::Tensor to = bytes(out.view({-1}));
    at::Tensor from = bytes(in.view({-1}));
    if (!group_) {
      to.copy_(from);
      return;
    }
    std::vector<int64_t> equal;
    c10d::AllToAllOptions on_this_stream;
    on_this_stream.asyncOp = false;
    finish(group_->backend->alltoall_base(to, from, equal, equal, on_this_stream));
  });
}

void Communicator::broadcast(const at::Tensor& t, int root) {
  check("broadcast", t);
  TORCH_CHECK(root >= 0 && root < options_.world_size, "zero: broadcast from rank ", root,
              " on communicator '", options_.name, "' of ", options_.world_size, " ranks.");
  if (host_) {
    return run_on_host(t, t, [&](auto& to, auto& from) { host_->broadcast(to.copy_(from), root); });
  }
  if (!group_ || t.numel() == 0) return;
  run("broadcast", t, [&](const auto& finish) {
    std::vector<at::Tensor> one = {bytes(t.view({-1}))};
    c10d::BroadcastOptions on_this_stream;
    on_this_stream.rootRank = root;
    on_this_stream.asyncOp = false;
    finish(group_->backend->broadcast(one, on_this_stream));
  });
}

bool Communicator::idle() const { return !group_ || !group_->last || group_->last->query(); }

void Communicator::set_timeout(std::chrono::milliseconds timeout) {
  options_.timeout = timeout;
  if (host_) host_->set_timeout(timeout);
  if (group_) group_->backend->setTimeout(timeout);
}

void Communicator::close(bool in_good_order) {
  closed_ = true;
  if (host_) host_->close(in_good_order);
  if (!group_) return;
  if (in_good_order) {
    group_->backend->shutdown();
  } else {
    group_->backend->abort();
  }
  group_.reset();
}

}  // namespace zero
