// SPDX-License-Identifier: Apache-2.0
// Safetensors files made byte by byte, right and wrong ones.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temporary_folder.h"

namespace zero {

using testing::TemporaryFolder;

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
