// SPDX-License-Identifier: Apache-2.0
// Where a tensor's values lie in its storage, and tensors of the same geometry over other bytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace zero {

// Bytes [begin, begin + bytes) of a storage.
struct ByteRange {
  int64_t begin = 0;
  int64_t bytes = 0;
  bool covers(const ByteRange& other) const {
    return begin <= other.begin && other.begin + other.bytes <= begin + bytes;
  }
};

// From the tensor's first to its last value. Of an expanded tensor that is one of the copies.
ByteRange extent_of(const at::Tensor& tensor);
// What to move for the tensor: its extent, or the whole storage where that is most of it anyway, so
// that several views of one storage are moved once.
ByteRange worth_moving(const at::Tensor& tensor);

// A tensor's geometry, without its bytes.
class Geometry {
 public:
  explicit Geometry(const at::Tensor& tensor);
  // The tensor over `bytes`, which holds what the original's storage held at `origin`.
  at::Tensor over(const at::Tensor& bytes, const ByteRange& origin) const;

 private:
  at::ScalarType dtype_;
  std::vector<int64_t> sizes_, strides_;
  int64_t offset_;  // elements
};

// A 1-D byte tensor over part of a storage.
at::Tensor bytes_of(const at::Tensor& tensor, const ByteRange& range);

}  // namespace zero
