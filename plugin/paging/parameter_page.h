// SPDX-License-Identifier: Apache-2.0
// A page of parameters: its layout, its home (this rank's shard, on the device or in host memory)
// and, while it is in use, its whole bytes.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "plugin/memory/buffers.h"
#include "plugin/memory/stream.h"
#include "plugin/paging/page_layout.h"
#include "plugin/paging/paged_storage.h"

namespace zero {

class ParameterPages;
class Residency;

class ParameterPage final : public Page {
 public:
  // `permanent` pages keep their whole bytes for good; their tensors are not tagged.
  ParameterPage(ParameterPages& owner, int id, PageLayout layout, at::Device device,
                bool permanent);

  void pin(Access access) override;
  void unpin() noexcept override;
  void announce_write() override;

  // For messages: "page 3 ('layers.2.weight')".
  std::string name() const;
  int id() const { return id_; }
  const PageLayout& layout() const { return layout_; }
  bool permanent() const { return permanent_; }
  // Where the master weights, the optimizer's state and the reduced gradients of this page lie.
  Place optimizer_place() const { return optimizer_place_; }
  // This rank's shard of the compute weights; a part of whole() when the page is permanent.
  const at::Tensor& home() const { return home_; }
  // The whole page while it is resident, else undefined.
  const at::Tensor& whole() const { return whole_; }

  // The home holds new values on the current stream: whatever reads it later waits for them.
  void home_changed() { home_ready_.record(); }

  // The home, and so the whole page, must be made from new master weights before the next operator
  // uses it; `refresh` does that. A page that stays whole is tagged until then, so that the next
  // operator is seen; where its bytes are old, tensors without the tag (made before, by detach() or
  // as views) and raw pointers are refused them.
  enum class Bytes : uint8_t { kNew, kOld };
  void mark_stale(std::function<void()> refresh, Bytes bytes);
  bool stale() const { return stale_.load(std::memory_order_acquire); }
  // A parameter that was given another storage (set_data, set_, vector_to_parameters, a load) comes
  // back to the page with its new values. Throws with its name when they do not fit. Cheap when
  // nothing has happened. Throws too when it was given other sizes in place.
  void reclaim();
  bool holds(size_t parameter) const { return holds(layout_.parameters[parameter]); }
  // As pin(kRead), with memory of its own where the byte budget has no room.
  void pin_beyond_budget();

  // Called when values written in place are about to replace those of the home: the new shard,
  // before the home takes it. The owner of master weights follows them here.
  std::function<void(const at::Tensor& shard)> on_written;
  // The same for one parameter of a page that stays whole; the new values are in the home.
  std::function<void(size_t parameter)> on_rewritten;

 private:
  friend class Residency;
  friend class ParameterPages;
  void freshen();
  void set_tagged(bool tagged);
  // Points the parameter at the page. Its TensorImpl, gradient accumulator and hooks stay.
  void point_at_page(const ParameterSlice& slice, bool tagged);
  bool holds(const ParameterSlice& slice) const;
  void bind_storages(void* page);
  void release_storages();

  const int id_;
  PageLayout layout_;
  const bool permanent_;
  Place optimizer_place_ = Place::kDevice;
  ParameterPages& owner_;
  Residency* residency_ = nullptr;
  std::vector<std::unique_ptr<PagedStorage>> storages_;
  Buffer home_buffer_;  // bytes of the home, or of the whole page when permanent
  at::Tensor home_;     // [shard_numel]
  at::Tensor whole_;    // [numel]
  std::mutex stale_mutex_;
  std::atomic<bool> stale_{false};
  std::function<void()> refresh_;
  Event home_ready_;  // the home's latest values

  // Owned by Residency and guarded by its lock.
  int64_t slot_ = -1;     // offset in the arena
  at::Tensor room_;       // bytes for the whole page, from the time when it is expected
  Buffer beyond_budget_;  // instead of a slot, for a scope that asked for more than the budget
  int pins_ = 0;
  bool used_ = false;   // pinned since it came
  bool dirty_ = false;  // written in place since it came
  uint64_t last_touch_ = 0;
  Event ready_;     // the bytes have arrived
  Event last_use_;  // the last operator that used them
};

}  // namespace zero
