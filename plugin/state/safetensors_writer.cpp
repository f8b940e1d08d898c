// SPDX-License-Identifier: Apache-2.0
#include "plugin/state/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "plugin/state/safetensors.h"

namespace zero {

namespace {

std::string header_of(const std::vector<SafetensorsWriter::Announcement>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t begin = 0;
  for (const auto& tensor : tensors) {
    TORCH_CHECK(tensor.name != "__metadata__" && !header.contains(tensor.name),
                "LibZeRO: two tensors named '", tensor.name, "' cannot stand in one file.");
    const int64_t end = begin + c10::multiply_integers(tensor.sizes) *
                                    static_cast<int64_t>(c10::elementSize(tensor.dtype));
    header[tensor.name] = {{"dtype", safetensors_dtype(tensor.dtype)},
                           {"shape", tensor.sizes},
                           {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // tensors begin aligned
  return text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& file,
                                     std::vector<Announcement> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(file), part_(file.string() + ".part"), tensors_(std::move(tensors)) {
  const std::string header = header_of(tensors_, metadata);
  descriptor_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  TORCH_CHECK(descriptor_ >= 0, "LibZeRO: ", part_.string(),
              " cannot be created: ", std::strerror(errno), ".");
  unsigned char prefix[8];
  for (size_t i = 0; i < sizeof prefix; ++i)
    prefix[i] = static_cast<unsigned char>(header.size() >> (8 * i));
  try {
    write_bytes(prefix, sizeof prefix);
    write_bytes(header.data(), header.size());
  } catch (...) {
    ::close(descriptor_);
    ::unlink(part_.c_str());
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(part_.c_str());
}

void SafetensorsWriter::write(const at::Tensor& values) {
  TORCH_INTERNAL_ASSERT(next_ < tensors_.size());
  const auto& announced = tensors_[next_++];
  TORCH_INTERNAL_ASSERT(values.is_contiguous() && values.is_cpu() &&
                        values.scalar_type() == announced.dtype &&
                        values.sizes() == announced.sizes);
  write_bytes(values.const_data_ptr(), values.nbytes());
}

void SafetensorsWriter::finish() {
  TORCH_INTERNAL_ASSERT(next_ == tensors_.size());
  const auto check = [&](int status, const char* what) {
    TORCH_CHECK(status == 0, "LibZeRO: ", part_.string(), " cannot be ", what, ": ",
                std::strerror(errno), ". ", file_.string(), " is as it was.");
  };
  check(::fsync(descriptor_), "flushed to the disk");
  check(::close(std::exchange(descriptor_, -1)), "closed");
  check(::rename(part_.c_str(), file_.c_str()), "renamed");
  // The new name is safe only when its folder is.
  const auto folder =
      file_.parent_path().empty() ? std::filesystem::path(".") : file_.parent_path();
  const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle >= 0) {
    ::fsync(handle);
    ::close(handle);
  }
}

void SafetensorsWriter::write_bytes(const void* data, uint64_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::write(descriptor_, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    TORCH_CHECK(done >= 0, "LibZeRO: ", part_.string(),
                " cannot be written: ", std::strerror(errno), ". ", file_.string(),
                " is as it was.");
    at += done;
    bytes -= static_cast<uint64_t>(done);
  }
}

}  // namespace zero
