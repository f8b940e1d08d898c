// SPDX-License-Identifier: Apache-2.0
#include "plugin/activations/byte_range.h"

#include <ATen/ops/empty.h>

namespace zero {

namespace {

at::Tensor over_storage(const c10::Storage& storage, at::ScalarType dtype, at::IntArrayRef sizes,
                        at::IntArrayRef strides, int64_t offset) {
  const at::Tensor plain =
      at::empty({0}, at::TensorOptions().dtype(dtype).device(storage.device()));
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), plain.unsafeGetTensorImpl()->key_set(), plain.dtype());
  tensor.unsafeGetTensorImpl()->set_storage_offset(offset);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

}  // namespace

ByteRange extent_of(const at::Tensor& tensor) {
  const int64_t item = tensor.element_size();
  if (tensor.numel() == 0) return {tensor.storage_offset() * item, 0};
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return {tensor.storage_offset() * item, (last + 1) * item};
}

ByteRange worth_moving(const at::Tensor& tensor) {
  const ByteRange extent = extent_of(tensor);
  const auto whole = static_cast<int64_t>(tensor.storage().nbytes());
  return 2 * extent.bytes >= whole ? ByteRange{0, whole} : extent;
}

Geometry::Geometry(const at::Tensor& tensor)
    : dtype_(tensor.scalar_type()),
      sizes_(tensor.sizes().vec()),
      strides_(tensor.strides().vec()),
      offset_(tensor.storage_offset()) {}

at::Tensor Geometry::over(const at::Tensor& bytes, const ByteRange& origin) const {
  const auto item = static_cast<int64_t>(c10::elementSize(dtype_));
  const int64_t begin = offset_ * item - origin.begin + bytes.storage_offset();
  return over_storage(bytes.storage(), dtype_, sizes_, strides_, begin / item);
}

at::Tensor bytes_of(const at::Tensor& tensor, const ByteRange& range) {
  return over_storage(tensor.storage(), at::kByte, {range.bytes}, {1}, range.begin);
}

}  // namespace zero
