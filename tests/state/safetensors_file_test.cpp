// SPDX-License-Identifier: Apache-2.0
// What is no whole and consistent safetensors file is refused when it is opened.
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugin/state/safetensors.h"
#include "plugin/state/weight_files.h"
#include "tests/state/files.h"

namespace zero {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::filesystem::path& file) {
  try {
    WeightFiles opened(file);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "accepted";
}

struct Damage {
  const char* name;
  std::string header;
  std::string data;
  std::string says;
};

class DamagedSafetensors : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedSafetensors, IsRefusedWithWhatIsWrong) {
  const TemporaryFolder folder;
  write_safetensors(folder / "m.safetensors", GetParam().header, GetParam().data);
  EXPECT_THAT(refusal(folder / "m.safetensors"), HasSubstr(GetParam().says));
}

std::string one(const std::string& fields) { return R"({"w":{)" + fields + "}}"; }

INSTANTIATE_TEST_SUITE_P(
    State, DamagedSafetensors,
    ::testing::Values(
        Damage{"NoJson", "{]", "", "no JSON, from byte 10"},
        Damage{"Empty", "", "", "does not begin with '{'"},
        Damage{"List", "[]", "", "does not begin with '{'"},
        Damage{"TooDeep", R"({"w":{"shape":{"a":1}}})", "", "'w' is nested deeper"},
        Damage{"ListInList", one(R"("shape":[[1]])"), "", "has a list where none belongs"},
        Damage{"UnknownDtype", one(R"("dtype":"F3","shape":[1],"data_offsets":[0,4])"), "abcd",
               "'w' has the unknown dtype 'F3'"},
        Damage{"NoDtype", one(R"("shape":[1],"data_offsets":[0,4])"), "abcd", "needs dtype, shape"},
        Damage{"NoOffsets", one(R"("dtype":"F32","shape":[1])"), "abcd", "two data_offsets"},
        Damage{"NegativeSize", one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), "abcd",
               "'w' holds a negative number"},
        Damage{"Backwards", one(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), "abcd",
               "ends before it begins"},
        Damage{"WrongSize", one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), "abcd",
               "needs 8 bytes by its sizes and has 4"},
        Damage{"Overflow",
               one(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])"), "",
               "impossible sizes"},
        Damage{"HugeNumber",
               one(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,0])"), "",
               "impossible number in shape"},
        Damage{
            "Overlap",
            R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
            "abcd", "'b' overlaps"},
        Damage{
            "Gap",
            R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
            "abcd", "'b' leaves a gap"},
        Damage{"CutOff", one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), "abcd",
               "was cut off"},
        Damage{"Surplus", one(R"("dtype":"U8","shape":[2],"data_offsets":[0,2])"), "abcd",
               "take 2 bytes, but it holds 4"},
        Damage{
            "NameTwice",
            R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
            "ab", "'a' stands in the header twice"}),
    [](const auto& info) { return info.param.name; });

TEST(SafetensorsFile, AHeaderLongerThanTheFileIsRefusedBeforeItIsRead) {
  const TemporaryFolder folder;
  write_text(folder / "m.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10));
  EXPECT_THAT(refusal(folder / "m.safetensors"), HasSubstr("does not fit a file of 10 bytes"));
}

TEST(SafetensorsFile, GivesNamesSizesAndBytes) {
  const TemporaryFolder folder;
  write_safetensors(folder / "m.safetensors",
                    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[2,1],)"
                    R"("data_offsets":[2,4]},"a":{"dtype":"F16","shape":[],"data_offsets":[0,2]}})",
                    "abcd");
  const SafetensorsFile file(folder / "m.safetensors");
  ASSERT_EQ(file.tensors().size(), 2U);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[0].dtype, at::kHalf);
  EXPECT_TRUE(file.tensors()[0].sizes.empty());
  EXPECT_EQ(file.tensors()[1].sizes, (std::vector<int64_t>{2, 1}));
  char last = 0;
  file.read(file.tensors()[1], 1, 1, &last);
  EXPECT_EQ(last, 'd');
}

TEST(WeightIndex, AllFaultsAreReportedTogether) {
  const TemporaryFolder folder;
  write_safetensors(folder / "one.safetensors",
                    R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("extra":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                    "ab");
  write_safetensors(folder / "stray.safetensors", "{}", "");
  write_text(folder / "model.safetensors.index.json",
             R"({"metadata":{"total_size":2},"weight_map":{"a":"one.safetensors",)"
             R"("a":"one.safetensors","b":"one.safetensors","c":"two.safetensors",)"
             R"("d":"../one.safetensors"}})");
  const std::string text = refusal(folder.path());
  EXPECT_THAT(text, HasSubstr("'a' is mapped twice"));
  EXPECT_THAT(text, HasSubstr("'b' is not in one.safetensors"));
  EXPECT_THAT(text, HasSubstr("two.safetensors cannot be opened"));
  EXPECT_THAT(text, HasSubstr("'../one.safetensors', which is not a file beside it"));
  EXPECT_THAT(text, HasSubstr("'extra' in one.safetensors is not mapped"));
  EXPECT_THAT(text, HasSubstr("stray.safetensors is missing from the index"));
}

TEST(WeightFolder, WithoutWeightsIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal(folder.path()), HasSubstr("holds no .safetensors file and no index"));
}

TEST(WeightFolder, WithSeveralFilesAndNoIndexIsRefused) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a.safetensors", "{}", "");
  write_safetensors(folder / "b.safetensors", "{}", "");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("2 .safetensors files and 0 indices"));
}

}  // namespace
}  // namespace zero
