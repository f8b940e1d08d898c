// SPDX-License-Identifier: Apache-2.0
#include "plugin/paging/paged_storage.h"

#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

namespace zero {

namespace {

// StorageImpl can be told to throw on raw access but has no public way back, and a DataPtr cannot
// be given other bytes without a new owner. An explicit instantiation may name a private member,
// which is the one door the language leaves open.
template <class Key, auto Member>
struct PrivateMember {
  friend constexpr auto private_member(Key) { return Member; }
};
struct ThrowsOnAccess {};
struct Owned {};
struct Bytes {};
constexpr auto private_member(ThrowsOnAccess);
constexpr auto private_member(Owned);
constexpr auto private_member(Bytes);
template struct PrivateMember<ThrowsOnAccess, &c10::StorageImpl::throw_on_immutable_data_ptr_>;
template struct PrivateMember<Owned, &at::DataPtr::ptr_>;
template struct PrivateMember<Bytes, &c10::detail::UniqueVoidPtr::data_>;

void set_throws_on_access(c10::StorageImpl& storage, bool throws) {
  storage.*private_member(ThrowsOnAccess{}) = throws;
}

// Deleter and context are left alone: another thread may be looking for the entry.
void set_bytes(c10::StorageImpl& storage, void* data) {
  auto& owned = storage._mutable_data_ptr_no_checks().*private_member(Owned{});
  owned.*private_member(Bytes{}) = data;
}

// The bytes belong to the page; a DataPtr with this deleter marks the storage as paged and leads to
// its entry.
void keep_bytes(void* /*entry*/) {}

}  // namespace

PagedStorage::PagedStorage(Page& page, int64_t nbytes, at::Device device, std::string what)
    : page_(page), nbytes_(nbytes), device_(device), what_(std::move(what)) {
  storage_ = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<size_t>(nbytes),
      at::DataPtr(nullptr, device), c10::GetAllocator(device.type()), /*resizable=*/false);
  storage_->release_data_and_set_meta_custom_data_ptr_error_msg_(
      "LibZeRO: the bytes of " + what_ +
      " are not in memory now, so they cannot be read by a raw pointer. Open a "
      "zero::GatheredParameters scope around this access.");
  storage_->set_data_ptr_noswap(at::DataPtr(nullptr, this, &keep_bytes, device));
  release();
}

PagedStorage::~PagedStorage() {
  // Tensors may outlive the engine in places that teardown cannot see; they must not find a dead
  // entry.
  set_throws_on_access(*storage_, true);
  storage_->set_data_ptr_noswap(at::DataPtr(nullptr, device_));
}

void PagedStorage::bind(void* data) {
  set_throws_on_access(*storage_, false);
  set_bytes(*storage_, data);
}

void PagedStorage::release() {
  set_throws_on_access(*storage_, true);
  set_bytes(*storage_, nullptr);
}

void PagedStorage::detach(at::DataPtr data) {
  set_throws_on_access(*storage_, false);
  leave(std::move(data));
}

void PagedStorage::abandon(const std::string& why) {
  storage_->release_data_and_set_meta_custom_data_ptr_error_msg_(why);
  leave(at::DataPtr(nullptr, device_));
}

void PagedStorage::leave(at::DataPtr data) {
  storage_->set_data_ptr_noswap(std::move(data));
  // The entry may die now: leave the storage to the tensors and keep an empty one for the
  // destructor.
  storage_ = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                   at::DataPtr(nullptr, device_), nullptr, false);
}

at::Tensor PagedStorage::tensor(at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset,
                                at::ScalarType dtype, bool tagged) const {
  const c10::InferenceMode normal(false);
  const at::Tensor plain = at::empty({0}, at::TensorOptions().dtype(dtype).device(device_));
  auto keys = plain.unsafeGetTensorImpl()->key_set();
  if (tagged) keys = keys.add(kPagedKey);
  auto tensor =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage_), keys, plain.dtype());
  tensor.unsafeGetTensorImpl()->set_storage_offset(offset);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

at::DataPtr keeping(const at::Tensor& owner, void* data) {
  return {data, new at::Tensor(owner),
          [](void* tensor) { delete static_cast<at::Tensor*>(tensor); }, owner.device()};
}

bool is_tagged(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->key_set().has(kPagedKey);
}

PagedStorage* paged_storage_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  auto& data = tensor.unsafeGetTensorImpl()
                   ->unsafe_storage()
                   .unsafeGetStorageImpl()
                   ->_mutable_data_ptr_no_checks();
  return data.get_deleter() == &keep_bytes ? static_cast<PagedStorage*>(data.get_context())
                                           : nullptr;
}

}  // namespace zero
