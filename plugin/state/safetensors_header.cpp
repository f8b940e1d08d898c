// SPDX-License-Identifier: Apache-2.0
#include "plugin/state/safetensors_header.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

namespace zero {

namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 16> kDtypes{{
    {"F64", at::kDouble},
    {"F32", at::kFloat},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"F8_E4M3", at::kFloat8_e4m3fn},
    {"F8_E5M2", at::kFloat8_e5m2},
    {"I64", at::kLong},
    {"I32", at::kInt},
    {"I16", at::kShort},
    {"I8", at::kChar},
    {"U64", at::kUInt64},
    {"U32", at::kUInt32},
    {"U16", at::kUInt16},
    {"U8", at::kByte},
    {"BOOL", at::kBool},
    {"C64", at::kComplexFloat},
}};

// What the JSON library reports while it reads, turned into entries.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const std::string& file) : file_(file) {}
  std::vector<StoredTensor> take() { return std::move(tensors_); }

  bool start_object(std::size_t) override {
    require(depth_ < 2, "is nested deeper than a header can be");
    if (++depth_ == 2 && !in_metadata()) {
      tensors_.emplace_back().name = key_;
      seen_dtype_ = seen_shape_ = false;
      offsets_.clear();
    }
    return true;
  }
  bool end_object() override {
    if (depth_-- == 2 && !in_metadata()) finish_tensor();
    return true;
  }
  bool key(string_t& key) override {
    if (depth_ == 1) {
      key_ = key;
      require(names_.insert(key_).second, "stands in the header twice");
    }
    if (depth_ == 2) field_ = key;
    return true;
  }
  bool start_array(std::size_t) override {
    require(depth_ == 2 && !in_list_ && (field_ == "shape" || field_ == "data_offsets"),
            "has a list where none belongs");
    if (field_ == "shape") seen_shape_ = true;
    return in_list_ = true;
  }
  bool end_array() override {
    in_list_ = false;
    return true;
  }
  bool string(string_t& text) override {
    require(depth_ == 2 && !in_list_, "holds a text where none belongs");
    if (in_metadata()) return true;
    require(field_ == "dtype", "has a text as " + field_);
    const auto known = std::find_if(kDtypes.begin(), kDtypes.end(),
                                    [&](const auto& dtype) { return dtype.first == text; });
    require(known != kDtypes.end(), "has the unknown dtype '" + text + "'");
    tensors_.back().dtype = known->second;
    return seen_dtype_ = true;
  }
  bool number_unsigned(number_unsigned_t number) override {
    require(in_list_, "holds a number where none belongs");
    require(number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()),
            "has an impossible number in " + field_);
    if (field_ == "shape") {
      tensors_.back().sizes.push_back(static_cast<int64_t>(number));
    } else {
      offsets_.push_back(number);
    }
    return true;
  }
  bool number_integer(number_integer_t) override { return refuse("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return refuse("a fraction"); }
  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool binary(binary_t&) override { return refuse("binary"); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    TORCH_CHECK(false, "LibZeRO: ", file_, ": the header is no JSON, from byte ", 8 + position,
                " on. The file is damaged or no safetensors file.");
  }

 private:
  bool in_metadata() const { return key_ == "__metadata__"; }

  void require(bool condition, const std::string& problem) const {
    TORCH_CHECK(condition, "LibZeRO: ", file_, ": ",
                key_.empty() ? std::string("the header") : "'" + key_ + "'", " ", problem,
                ". The file is damaged or no safetensors file.");
  }
  bool refuse(const char* what) const {
    require(false, std::string("holds ") + what + " where none belongs");
    return false;
  }

  void finish_tensor() {
    StoredTensor& tensor = tensors_.back();
    require(seen_dtype_ && seen_shape_ && offsets_.size() == 2,
            "needs dtype, shape and two data_offsets");
    require(offsets_[0] <= offsets_[1], "ends before it begins");
    uint64_t bytes = c10::elementSize(tensor.dtype);
    for (const int64_t size : tensor.sizes) {
      require(!__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes) &&
                  bytes <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()),
              "has impossible sizes");
    }
    tensor.begin = offsets_[0];
    tensor.bytes = offsets_[1] - offsets_[0];
    require(bytes == tensor.bytes, "needs " + std::to_string(bytes) +
                                       " bytes by its sizes and has " +
                                       std::to_string(tensor.bytes));
  }

  const std::string& file_;
  std::vector<StoredTensor> tensors_;
  std::unordered_set<std::string> names_;
  std::string key_;
  std::string field_;
  std::vector<uint64_t> offsets_;
  int depth_ = 0;
  bool in_list_ = false;
  bool seen_dtype_ = false;
  bool seen_shape_ = false;
};

}  // namespace

std::string_view safetensors_dtype(at::ScalarType dtype) {
  for (const auto& [name, known] : kDtypes) {
    if (known == dtype) return name;
  }
  TORCH_CHECK(false, "LibZeRO: safetensors files have no dtype for ", dtype,
              ". Convert the tensor before it is written.");
}

std::vector<StoredTensor> parse_safetensors_header(std::string_view text, uint64_t data_begin,
                                                   uint64_t data_bytes, const std::string& file) {
  HeaderReader reader(file);
  TORCH_CHECK(!text.empty() && text.front() == '{', "LibZeRO: ", file,
              ": the header does not begin with '{'. The file is damaged or no safetensors file.");
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  std::vector<StoredTensor> tensors = reader.take();
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.bytes) < std::pair(b.begin, b.bytes);
  });
  uint64_t end = 0;
  for (auto& tensor : tensors) {
    TORCH_CHECK(tensor.begin == end, "LibZeRO: ", file, ": '", tensor.name,
                tensor.begin < end ? "' overlaps the tensor before it"
                                   : "' leaves a gap after the tensor before it",
                ". The file is damaged.");
    end = tensor.begin + tensor.bytes;
    tensor.begin += data_begin;
  }
  TORCH_CHECK(end == data_bytes, "LibZeRO: ", file, ": its tensors take ", end,
              " bytes, but it holds ", data_bytes, end > data_bytes ? ". It was cut off." : ".");
  return tensors;
}

}  // namespace zero
