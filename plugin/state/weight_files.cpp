// SPDX-License-Identifier: Apache-2.0
#include "plugin/state/weight_files.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

namespace zero {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexEnding = ".index.json";
constexpr std::string_view kFileEnding = ".safetensors";
constexpr uintmax_t kLargestIndex = uintmax_t{100} << 20;

std::vector<fs::path> files_ending_with(const fs::path& folder, std::string_view ending) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().ends_with(ending)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// The weight_map of an index, in its order, with names that stand twice still there twice. Nothing
// else of the index is kept.
class IndexReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit IndexReader(const fs::path& file) : file_(file) {}
  std::vector<std::pair<std::string, std::string>> entries;

  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool key(string_t& key) override {
    if (depth_ == 1) section_ = key;
    if (depth_ == 2) name_ = key;
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ == 2 && section_ == "weight_map") entries.emplace_back(name_, text);
    return true;
  }
  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_unsigned(number_unsigned_t) override { return other(); }
  bool number_float(number_float_t, const string_t&) override { return other(); }
  bool binary(binary_t&) override { return other(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    TORCH_CHECK(false, "LibZeRO: ", file_.string(), ": no JSON, from byte ", position, " on.");
  }

 private:
  bool enter() {
    TORCH_CHECK(++depth_ < 16, "LibZeRO: ", file_.string(), ": nested too deeply for an index.");
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }
  bool other() const {
    TORCH_CHECK(depth_ != 2 || section_ != "weight_map", "LibZeRO: ", file_.string(),
                ": weight_map must give '", name_, "' the name of a file.");
    return true;
  }

  const fs::path& file_;
  std::string section_;
  std::string name_;
  int depth_ = 0;
};

}  // namespace

// Collects what is wrong while it opens.
class WeightFiles::Opener {
 public:
  explicit Opener(WeightFiles& result) : result_(result) {}

  void open(const fs::path& from) {
    if (fs::is_directory(from)) {
      open_folder(from);
    } else if (from.filename().string().ends_with(kIndexEnding)) {
      open_index(from);
    } else if (const SafetensorsFile* const file = open_file(from)) {
      for (const auto& tensor : file->tensors()) add(*file, tensor);
    }
    if (problems_.empty()) return;
    std::string text = "LibZeRO: the weights in " + from.string() + " cannot be used:";
    for (const auto& problem : problems_) text.append("\n  ").append(problem);
    TORCH_CHECK(false, text);
  }

 private:
  void open_folder(const fs::path& folder) {
    const auto indices = files_ending_with(folder, kIndexEnding);
    const auto files = files_ending_with(folder, kFileEnding);
    if (indices.size() == 1) {
      open_index(indices.front());
    } else if (indices.empty() && files.size() == 1) {
      open(files.front());
    } else if (indices.empty() && files.empty()) {
      problems_.push_back("the folder holds no .safetensors file and no index");
    } else {
      problems_.push_back("the folder holds " + std::to_string(files.size()) +
                          " .safetensors files and " + std::to_string(indices.size()) +
                          " indices; name the file or the index to load");
    }
  }

  void open_index(const fs::path& index) {
    std::error_code error;
    const uintmax_t size = fs::file_size(index, error);
    TORCH_CHECK(!error && size <= kLargestIndex, "LibZeRO: ", index.string(), " ",
                error ? error.message() : "is too large for an index", ".");
    std::ifstream stream(index, std::ios::binary);
    IndexReader reader(index);
    nlohmann::json::sax_parse(stream, &reader);
    if (reader.entries.empty()) problems_.push_back(index.string() + ": has no weight_map");

    std::map<std::string, std::map<std::string, const StoredTensor*>> contents;
    std::map<std::string, const SafetensorsFile*> files;
    std::set<std::string> mapped;
    for (const auto& [name, file] : reader.entries) {
      if (!mapped.insert(name).second) problems_.push_back("'" + name + "' is mapped twice");
      if (const auto [at, is_new] = files.try_emplace(file); is_new) {
        at->second = open_shard(index, file);
        if (at->second == nullptr) continue;
        for (const auto& tensor : at->second->tensors()) contents[file][tensor.name] = &tensor;
      }
      if (files[file] == nullptr) continue;
      const auto tensor = contents[file].find(name);
      if (tensor == contents[file].end()) {
        problems_.push_back("'" + name + "' is not in " + file + ", where the index puts it");
      } else {
        add(*files[file], *tensor->second);
      }
    }
    for (const auto& [file, tensors] : contents) {
      for (const auto& [name, tensor] : tensors) {
        if (!mapped.count(name))
          problems_.push_back("'" + name + "' in " + file + " is not mapped");
      }
    }
    for (const auto& path : files_ending_with(
             index.parent_path().empty() ? fs::path(".") : index.parent_path(), kFileEnding)) {
      if (!files.count(path.filename().string()))
        problems_.push_back(path.filename().string() + " is missing from the index");
    }
  }

  const SafetensorsFile* open_shard(const fs::path& index, const std::string& file) {
    if (fs::path(file).filename() != file) {
      problems_.push_back("the index names '" + file + "', which is not a file beside it");
      return nullptr;
    }
    return open_file(index.parent_path() / file);
  }

  const SafetensorsFile* open_file(const fs::path& path) {
    try {
      return &result_.files_.emplace_back(path);
    } catch (const c10::Error& error) {
      problems_.push_back(error.what_without_backtrace());
      return nullptr;
    }
  }

  void add(const SafetensorsFile& file, const StoredTensor& tensor) {
    result_.tensors_.try_emplace(tensor.name, Source{&file, &tensor});
  }

  WeightFiles& result_;
  std::vector<std::string> problems_;
};

WeightFiles::WeightFiles(const std::filesystem::path& from) { Opener(*this).open(from); }

}  // namespace zero
