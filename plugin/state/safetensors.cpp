// SPDX-License-Identifier: Apache-2.0
#include "plugin/state/safetensors.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "plugin/state/safetensors_header.h"

namespace zero {

namespace {

constexpr uint64_t kPrefix = 8;
constexpr uint64_t kLargestHeader = uint64_t{100} << 20;  // the format's own limit

}  // namespace

int64_t StoredTensor::numel() const {
  return static_cast<int64_t>(bytes / c10::elementSize(dtype));
}

SafetensorsFile::SafetensorsFile(std::filesystem::path path) : path_(std::move(path)) {
  file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  TORCH_CHECK(file_ >= 0, "LibZeRO: ", path_.string(), " cannot be opened: ", std::strerror(errno),
              ".");
  try {
    struct stat status {};
    TORCH_CHECK(::fstat(file_, &status) == 0 && S_ISREG(status.st_mode),
                "LibZeRO: ", path_.string(), " is no regular file.");
    const auto size = static_cast<uint64_t>(status.st_size);
    TORCH_CHECK(size >= kPrefix, "LibZeRO: ", path_.string(), " has ", size,
                " bytes, too few for a safetensors file.");
    unsigned char prefix[kPrefix];
    read_at(0, kPrefix, prefix, "its first bytes");
    uint64_t header_bytes = 0;
    for (size_t i = 0; i < kPrefix; ++i) header_bytes |= uint64_t{prefix[i]} << (8 * i);
    TORCH_CHECK(header_bytes <= kLargestHeader && header_bytes <= size - kPrefix,
                "LibZeRO: ", path_.string(), ": a header of ", header_bytes,
                " bytes does not fit a file of ", size,
                " bytes. The file is cut off, damaged or no safetensors file.");
    std::string header(header_bytes, '\0');
    read_at(kPrefix, header_bytes, header.data(), "its header");
    const uint64_t data_begin = kPrefix + header_bytes;
    tensors_ = parse_safetensors_header(header, data_begin, size - data_begin, path_.string());
  } catch (...) {
    ::close(file_);
    throw;
  }
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      tensors_(std::move(other.tensors_)) {}

SafetensorsFile::~SafetensorsFile() {
  if (file_ >= 0) ::close(file_);
}

void SafetensorsFile::read(const StoredTensor& tensor, uint64_t offset, uint64_t bytes,
                           void* into) const {
  TORCH_INTERNAL_ASSERT(offset <= tensor.bytes && bytes <= tensor.bytes - offset);
  read_at(tensor.begin + offset, bytes, into, tensor.name);
}

void SafetensorsFile::read_at(uint64_t position, uint64_t bytes, void* into,
                              std::string_view what) const {
  auto* at = static_cast<char*>(into);
  while (bytes > 0) {
    const ssize_t got = ::pread(file_, at, bytes, static_cast<off_t>(position));
    if (got < 0 && errno == EINTR) continue;
    TORCH_CHECK(got >= 0, "LibZeRO: ", path_.string(), ": '", what,
                "' cannot be read: ", std::strerror(errno), ".");
    TORCH_CHECK(got > 0, "LibZeRO: ", path_.string(), ": ends in the middle of '", what,
                "'; it became shorter while it was read.");
    at += got;
    position += static_cast<uint64_t>(got);
    bytes -= static_cast<uint64_t>(got);
  }
}

}  // namespace zero
