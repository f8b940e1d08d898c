// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt/corpus.h"

#include <ATen/ops/empty.h>
#include <zlib.h>

#include <memory>
#include <stdexcept>

namespace gpt {
namespace {

constexpr double kTrainShare = 0.95;

// Plain files pass through zlib's reader unchanged.
std::string read_text(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file)) {
    throw std::runtime_error("corpus: there is no file " + file.string() +
                             ". Install a dictionary with `apt-get install dict-gcide` (" +
                             kDictionary + "), or name a text or .gz file with --corpus");
  }
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> in(gzopen(file.c_str(), "rb"), &gzclose);
  if (!in)
    throw std::runtime_error("corpus: cannot open " + file.string() + "; check its permissions");
  std::string text;
  constexpr unsigned kChunk = 1 << 20;
  for (int got = 1; got > 0;) {
    const size_t end = text.size();
    text.resize(end + kChunk);
    got = gzread(in.get(), text.data() + end, kChunk);
    text.resize(end + static_cast<size_t>(got > 0 ? got : 0));
  }
  // A file that was cut short ends without a reading error; only the code tells.
  int code = Z_OK;
  const char* message = gzerror(in.get(), &code);
  if (code != Z_OK) {
    throw std::runtime_error("corpus: " + file.string() + " is damaged (" + message +
                             "); fetch it again");
  }
  return text;
}

void check_window(std::string_view text, const char* part, int64_t context) {
  if (static_cast<int64_t>(text.size()) > context) return;
  throw std::runtime_error("corpus: the " + std::string(part) + " part has " +
                           std::to_string(text.size()) + " bytes, a window needs " +
                           std::to_string(context + 1) +
                           "; take a longer text or a shorter context");
}

// Copies the window that begins at `begin` into one row of the batch.
void put_row(Batch& batch, int64_t row, int64_t context, std::string_view text, size_t begin) {
  int64_t* tokens = batch.tokens.data_ptr<int64_t>() + row * context;
  int64_t* target = batch.target.data_ptr<int64_t>() + row * context;
  for (int64_t i = 0; i < context; ++i) {
    tokens[i] = static_cast<uint8_t>(text[begin + static_cast<size_t>(i)]);
    target[i] = static_cast<uint8_t>(text[begin + static_cast<size_t>(i) + 1]);
  }
}

Batch empty_batch(int64_t rows, int64_t context) {
  return {at::empty({rows, context}, at::kLong), at::empty({rows, context}, at::kLong)};
}

}  // namespace

Corpus Corpus::from_file(const std::filesystem::path& file) { return Corpus(read_text(file)); }

Corpus::Corpus(std::string text)
    : text_(std::move(text)),
      split_(static_cast<size_t>(static_cast<double>(text_.size()) * kTrainShare)) {}

std::vector<Batch> Corpus::held_out_batches(int64_t batches, int64_t rows, int64_t context) const {
  const std::string_view text = held_out();
  check_window(text, "held-out", context);
  const auto last = text.size() - static_cast<size_t>(context) - 1;
  const auto windows = static_cast<size_t>(batches * rows);
  std::vector<Batch> result;
  for (int64_t b = 0; b < batches; ++b) {
    result.push_back(empty_batch(rows, context));
    for (int64_t r = 0; r < rows; ++r) {
      const auto window = static_cast<size_t>(b * rows + r);
      put_row(result.back(), r, context, text, windows > 1 ? last * window / (windows - 1) : 0);
    }
  }
  return result;
}

WindowSampler::WindowSampler(const Corpus& corpus, int64_t rows, int64_t context, uint64_t seed,
                             int rank)
    : corpus_(&corpus), rows_(rows), context_(context) {
  check_window(corpus.train(), "training", context);
  std::seed_seq seeds{seed, static_cast<uint64_t>(rank)};
  random_.seed(seeds);
}

Batch WindowSampler::next() {
  const std::string_view text = corpus_->train();
  std::uniform_int_distribution<size_t> begin(0, text.size() - static_cast<size_t>(context_) - 1);
  Batch batch = empty_batch(rows_, context_);
  for (int64_t r = 0; r < rows_; ++r) put_row(batch, r, context_, text, begin(random_));
  return batch;
}

}  // namespace gpt
