// SPDX-License-Identifier: Apache-2.0
// The join between LibTorch and pages: a storage whose bytes come and go while tensors over it stay
// as they are.
//
// Note [Pages and tensors]
// A paged tensor differs from a plain one in two things. Its TensorImpl
// carries a dispatch key below autograd, the tag, so that every operator that touches it passes
// through the interposer; and its StorageImpl belongs to a PagedStorage, which the interposer finds
// through the storage's DataPtr (deleter and context), without a map. Sizes, strides, offset,
// dtype, device and the TensorImpl itself stay true all the time. Views and saved tensors share the
// storage, so they page with it. A tag is no proof of a page: a tensor may be given another storage
// at any time, and then the tag costs one look and does nothing.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <string>

namespace zero {

enum class Access : uint8_t { kRead, kWrite };

// Something whose bytes are brought in before an operator runs and may leave after it.
class Page {
 public:
  Page() = default;
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  virtual ~Page() = default;

  // Bytes are bound and valid on the current stream until unpin(). Any thread. Throws when they
  // cannot be; then nothing is pinned.
  virtual void pin(Access access) = 0;
  virtual void unpin() noexcept = 0;
  // Throws where the bytes are only this rank's part of a tensor, so that an operator that reduces
  // over them (a norm, a sum, a product) would give a number that means nothing.
  virtual void check_reduction(const std::string& op) const { (void)op; }
  // The operator that has pinned this page for kWrite begins: all pages of its arguments are there.
  virtual void announce_write() {}
};

// One storage of a page. Owns the StorageImpl, so that the address cannot be reused by another
// tensor while the page lives; must outlive no tensor: detach() leaves the storage behind as a
// plain one.
class PagedStorage {
 public:
  // `what` names the storage in the error that a raw read of released bytes raises.
  PagedStorage(Page& page, int64_t nbytes, at::Device device, std::string what);
  PagedStorage(const PagedStorage&) = delete;
  PagedStorage& operator=(const PagedStorage&) = delete;
  ~PagedStorage();

  // The storage reads and writes `data` from now on; the memory stays the page's.
  void bind(void* data);
  // The storage has no bytes; raw access throws.
  void release();
  // The storage becomes a plain one that owns `data`, which must not be empty unless nbytes is 0.
  void detach(at::DataPtr data);
  // The storage has no bytes for good: who uses it is told `why`.
  void abandon(const std::string& why);

  // A tagged tensor with this storage and the given geometry.
  at::Tensor tensor(at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset,
                    at::ScalarType dtype, bool tagged) const;

  Page& page() const { return page_; }
  int64_t nbytes() const { return nbytes_; }
  at::Device device() const { return device_; }
  const std::string& what() const { return what_; }
  const c10::StorageImpl* impl() const { return storage_.get(); }

 private:
  void leave(at::DataPtr data);

  Page& page_;
  c10::intrusive_ptr<c10::StorageImpl> storage_;
  int64_t nbytes_;
  at::Device device_;
  std::string what_;
};

// A pointer to `data` that keeps the memory of `owner` alive.
at::DataPtr keeping(const at::Tensor& owner, void* data);

// The dispatch key that tags a paged tensor.
inline constexpr c10::DispatchKey kPagedKey = c10::DispatchKey::Fake;

bool is_tagged(const at::Tensor& tensor);
// The page entry of a tensor's storage, or nullptr for a plain tensor.
PagedStorage* paged_storage_of(const at::Tensor& tensor);

}  // namespace zero
