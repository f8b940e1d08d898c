// SPDX-License-Identifier: Apache-2.0
// A text as training data: bytes of one file, split into a training part (the first 95 %) and a
// held-out part (the rest).
//
// Reads plain text, .gz, and dictd's .dz (which is gzip). A Corpus is immutable; any thread may
// read it. Errors are std::runtime_error.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

// Where Debian's package dict-gcide puts the Collaborative International Dictionary of English.
inline constexpr const char* kDictionary = "/usr/share/dictd/gcide.dict.dz";

struct Batch {
  at::Tensor tokens;  // [rows, context] int64, on the CPU
  at::Tensor target;  // [rows, context] int64, each the byte that follows
};

class Corpus {
 public:
  // A missing file's error names the package that has the dictionary.
  static Corpus from_file(const std::filesystem::path& file);
  explicit Corpus(std::string text);

  std::string_view train() const { return std::string_view(text_).substr(0, split_); }
  std::string_view held_out() const { return std::string_view(text_).substr(split_); }
  // The same windows in every run: `rows` a batch, spread evenly over the held-out part.
  std::vector<Batch> held_out_batches(int64_t batches, int64_t rows, int64_t context) const;

 private:
  std::string text_;
  size_t split_;
};

// Random windows of the training part. Two samplers of one seed and rank give the same windows;
// ranks differ.
class WindowSampler {
 public:
  WindowSampler(const Corpus& corpus, int64_t rows, int64_t context, uint64_t seed, int rank);
  Batch next();

 private:
  const Corpus* corpus_;
  int64_t rows_, context_;
  std::mt19937_64 random_;
};

}  // namespace gpt
