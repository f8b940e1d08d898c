// SPDX-License-Identifier: Apache-2.0
// Safetensors files made byte by byte, right and wrong ones.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace zero {

// A folder of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "zero_state_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

// Length, header, data: as the format wants them, whatever the header says.
inline void write_safetensors(const std::filesystem::path& file, const std::string& header,
                              const std::string& data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i));
  write_text(file, bytes + header + data);
}

}  // namespace zero
