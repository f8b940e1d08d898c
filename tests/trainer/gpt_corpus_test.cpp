// SPDX-License-Identifier: Apache-2.0
// The example's data: the same windows for the same seed, and held-out text that is never trained
// on.
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "examples/gpt/corpus.h"

namespace gpt {
namespace {

using ::testing::HasSubstr;

std::string counting_text(size_t bytes) {
  std::string text(bytes, '\0');
  std::iota(text.begin(), text.end(), '\0');
  return text;
}

// A file that goes away with the test.
struct TemporaryFile {
  explicit TemporaryFile(const std::string& name)
      : path(std::filesystem::temp_directory_path() / ("libzero_corpus_test_" + name)) {}
  ~TemporaryFile() { std::filesystem::remove(path); }
  void write(const std::string& bytes) const { std::ofstream(path, std::ios::binary) << bytes; }
  void write_compressed(const std::string& bytes) const {
    gzFile out = gzopen(path.c_str(), "wb");
    ASSERT_EQ(gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size())),
              static_cast<int>(bytes.size()));
    gzclose(out);
  }
  std::filesystem::path path;
};

TEST(Corpus, HoldsOutTheLastTwentieth) {
  const Corpus corpus(counting_text(1000));
  EXPECT_EQ(corpus.train().size(), 950U);
  EXPECT_EQ(corpus.held_out().size(), 50U);
  EXPECT_EQ(std::string(corpus.train()) + std::string(corpus.held_out()), counting_text(1000));
}

TEST(Corpus, TheTargetIsTheNextByte) {
  const Corpus corpus(counting_text(4000));
  const Batch batch = WindowSampler(corpus, 3, 16, 1, 0).next();
  EXPECT_EQ(batch.tokens.sizes(), (at::IntArrayRef{3, 16}));
  EXPECT_TRUE(at::equal(batch.tokens.add(1).remainder(256), batch.target));
  EXPECT_GE(batch.tokens.min().item<int64_t>(), 0);
}

TEST(Corpus, WindowsRepeatForTheSameSeedAndDifferAmongRanksAndSeeds) {
  const Corpus corpus(counting_text(40000) + std::string(40000, 'x'));
  WindowSampler a(corpus, 8, 32, 7, 0), b(corpus, 8, 32, 7, 0);
  WindowSampler other_rank(corpus, 8, 32, 7, 1), other_seed(corpus, 8, 32, 8, 0);
  const Batch first = a.next();
  EXPECT_TRUE(at::equal(first.tokens, b.next().tokens));
  EXPECT_FALSE(at::equal(first.tokens, a.next().tokens));
  EXPECT_FALSE(at::equal(first.tokens, other_rank.next().tokens));
  EXPECT_FALSE(at::equal(first.tokens, other_seed.next().tokens));
}

TEST(Corpus, HeldOutWindowsAreFixedAndSpanTheWholePart) {
  const std::string held_out = counting_text(100);
  const Corpus corpus(std::string(1900, 'x') + held_out);
  const auto batches = corpus.held_out_batches(2, 2, 9);
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_EQ(batches[0].tokens[0][0].item<int64_t>(), 0);
  EXPECT_EQ(batches[1].target[1][8].item<int64_t>(), 99);
  EXPECT_TRUE(at::equal(batches[1].tokens, corpus.held_out_batches(2, 2, 9)[1].tokens));
}

TEST(Corpus, TrainingWindowsNeverReachTheHeldOutPart) {
  const Corpus corpus(std::string(95, 'a') + std::string(5, 'z'));
  WindowSampler windows(corpus, 64, 4, 1, 0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(windows.next().target.max().item<int64_t>(), 'a');
}

TEST(Corpus, ReadsPlainAndCompressedFilesAlike) {
  const std::string text = counting_text(3'000'000);
  const TemporaryFile plain("plain.txt"), compressed("compressed.gz");
  plain.write(text);
  compressed.write_compressed(text);
  const Corpus a = Corpus::from_file(plain.path), b = Corpus::from_file(compressed.path);
  EXPECT_EQ(std::string(a.train()) + std::string(a.held_out()), text);
  EXPECT_EQ(a.train(), b.train());
  EXPECT_EQ(a.held_out(), b.held_out());
}

std::string error_of(const std::filesystem::path& file) {
  try {
    Corpus::from_file(file);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(Corpus, AMissingFileNamesThePackageToInstall) {
  const std::string error = error_of("/no/such/file.dz");
  EXPECT_THAT(error, HasSubstr("/no/such/file.dz"));
  EXPECT_THAT(error, HasSubstr("apt-get install dict-gcide"));
}

TEST(Corpus, AFileThatWasCutShortIsAnError) {
  const TemporaryFile file("cut.gz");
  file.write_compressed(counting_text(1'000'000));
  std::filesystem::resize_file(file.path, std::filesystem::file_size(file.path) / 2);
  EXPECT_THAT(error_of(file.path), HasSubstr("is damaged"));
}

TEST(Corpus, ATextShorterThanAWindowIsAnErrorWithBothNumbers) {
  const Corpus corpus(counting_text(100));
  EXPECT_THROW(WindowSampler(corpus, 1, 95, 1, 0), std::runtime_error);
  EXPECT_NO_THROW(WindowSampler(corpus, 1, 94, 1, 0));
  try {
    corpus.held_out_batches(1, 1, 5);
    FAIL() << "expected an error";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("held-out part has 5 bytes, a window needs 6"));
  }
}

}  // namespace
}  // namespace gpt
