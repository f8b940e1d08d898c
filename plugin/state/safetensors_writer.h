// SPDX-License-Identifier: Apache-2.0
// Writes one safetensors file, tensor by tensor, in the order in which they were announced.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace zero {

class SafetensorsWriter {
 public:
  struct Announcement {
    std::string name;
    at::ScalarType dtype{};
    std::vector<int64_t> sizes;
  };

  // Creates `file` with a ".part" ending beside its final place and writes the header.
  SafetensorsWriter(const std::filesystem::path& file, std::vector<Announcement> tensors,
                    const std::map<std::string, std::string>& metadata = {});
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  // Without finish(): the file is removed again.
  ~SafetensorsWriter();

  // The values of the next tensor; contiguous, on the CPU, as announced.
  void write(const at::Tensor& values);
  // Flushes to the disk and gives the file its name.
  void finish();

 private:
  void write_bytes(const void* data, uint64_t bytes);

  std::filesystem::path file_;
  std::filesystem::path part_;
  std::vector<Announcement> tensors_;
  size_t next_ = 0;
  int descriptor_ = -1;
};

}  // namespace zero
