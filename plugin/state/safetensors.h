// SPDX-License-Identifier: Apache-2.0
// Reads safetensors files: 8 bytes with the length of a JSON header (little endian), the header,
// and the tensors' bytes end to end in row-major order. Format: the safetensors README.
//
// A file is checked in full when it is opened, before a byte of a tensor is given out: header
// length against file size, names, dtypes, sizes, and that the tensors cover the data without gap
// or overlap. Every error names file and tensor. One object may be read from several threads.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

struct StoredTensor {
  std::string name;
  at::ScalarType dtype{};
  std::vector<int64_t> sizes;
  uint64_t begin = 0;  // bytes from the beginning of the file
  uint64_t bytes = 0;
  int64_t numel() const;
};

class SafetensorsFile {
 public:
  explicit SafetensorsFile(std::filesystem::path path);
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;
  ~SafetensorsFile();

  const std::filesystem::path& path() const { return path_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // in order of their bytes
  // `bytes` of the tensor, from `offset` bytes after its beginning.
  void read(const StoredTensor& tensor, uint64_t offset, uint64_t bytes, void* into) const;

 private:
  void read_at(uint64_t position, uint64_t bytes, void* into, std::string_view what) const;

  std::filesystem::path path_;
  int file_ = -1;
  std::vector<StoredTensor> tensors_;
};

// The name of a dtype in a header ("BF16"); throws for one that the format does not have.
std::string_view safetensors_dtype(at::ScalarType dtype);

}  // namespace zero
