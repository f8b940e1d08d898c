// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <regex>

#include "plugin/state/model_tensors.h"
#include "plugin/state/weight_files.h"
#include "zero/weights.h"

namespace zero {

namespace {

using Patterns = std::vector<std::regex>;

std::regex compiled(const std::string& text) {
  try {
    return std::regex(text);
  } catch (const std::regex_error& error) {
    TORCH_CHECK(false, "LibZeRO: '", text, "' is no regular expression: ", error.what(), ".");
  }
}

Patterns compiled(const std::vector<std::string>& texts) {
  Patterns patterns;
  for (const auto& text : texts) patterns.push_back(compiled(text));
  return patterns;
}

bool matches(const Patterns& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const auto& pattern) { return std::regex_match(name, pattern); });
}

// One tensor of the model and where its values are stored.
struct Match {
  at::Tensor target;
  std::string name;                          // of the target
  std::vector<WeightFiles::Source> sources;  // a tied weight may be stored under several names
  bool transposed = false;
};

// Finds for each tensor of the model what is stored for it, and everything that does not fit.
class Matcher {
 public:
  Matcher(const torch::nn::Module& model, const WeightFiles& files, const LoadOptions& options)
      : ignored_(compiled(options.ignore)), transposed_(compiled(options.transposed)) {
    rename(files, options);
    for (const auto& tensor : model_tensors(model)) match(tensor);
    for (const auto& [name, source] : stored_) {
      if (!used_.count(name) && !matches(ignored_, name)) report.unexpected.push_back(name);
    }
    refuse(options.strict);
  }

  std::vector<Match> found;
  LoadReport report;

 private:
  void rename(const WeightFiles& files, const LoadOptions& options) {
    std::vector<std::pair<std::regex, std::string>> rules;
    for (const auto& [from, to] : options.rename) rules.emplace_back(compiled(from), to);
    std::map<std::string, std::string> original;
    for (const auto& [stored, source] : files.tensors()) {
      std::string name = stored;
      for (const auto& [from, to] : rules) name = std::regex_replace(name, from, to);
      const auto [at, is_new] = original.try_emplace(name, stored);
      if (is_new) {
        stored_.emplace(name, source);
      } else {
        problems_.push_back("'" + at->second + "' and '" + stored + "' are both mapped to '" +
                            name + "'");
      }
    }
  }

  void match(const ModelTensor& tensor) {
    Match match{tensor.tensor, tensor.names.front(), {}, false};
    for (const auto& name : tensor.names) {
      const auto stored = stored_.find(name);
      if (stored == stored_.end()) continue;
      used_.emplace(name, true);
      match.transposed = matches(transposed_, name);
      check(name, tensor.tensor, *stored->second.tensor, match.transposed);
      match.sources.push_back(stored->second);
    }
    if (!match.sources.empty()) {
      found.push_back(std::move(match));
    } else if (std::none_of(tensor.names.begin(), tensor.names.end(),
                            [&](const auto& name) { return matches(ignored_, name); })) {
      report.missing.push_back(tensor.names.front());
    }
  }

  void check(const std::string& name, const at::Tensor& target, const StoredTensor& stored,
             bool transposed) {
    auto sizes = target.sizes().vec();
    if (transposed && sizes.size() != 2) {
      problems_.push_back("'" + name + "' cannot be stored transposed: it has " +
                          std::to_string(sizes.size()) + " dimensions");
      return;
    }
    if (transposed) std::swap(sizes[0], sizes[1]);
    if (sizes != stored.sizes) {
      problems_.push_back(c10::str("'", name, "' is ", c10::IntArrayRef(stored.sizes),
                                   " in the file and ", target.sizes(), " in the model",
                                   transposed ? " (stored transposed)" : ""));
    }
    const bool floats = c10::isFloatingType(stored.dtype) || c10::isComplexType(stored.dtype);
    if (floats && c10::isIntegralType(target.scalar_type(), /*includeBool=*/true)) {
      problems_.push_back(c10::str("'", name, "' is ", stored.dtype, " in the file and ",
                                   target.scalar_type(), " in the model"));
    }
  }

  void refuse(bool strict) {
    if (strict) {
      for (const auto& name : report.missing) problems_.push_back("missing: '" + name + "'");
      for (const auto& name : report.unexpected) problems_.push_back("unexpected: '" + name + "'");
    }
    if (problems_.empty()) return;
    std::string text = "LibZeRO: the stored weights do not fit the model; nothing was loaded:";
    for (const auto& problem : problems_) text.append("\n  ").append(problem);
    TORCH_CHECK(false, text);
  }

  Patterns ignored_;
  Patterns transposed_;
  std::map<std::string, WeightFiles::Source> stored_;  // by the model's names
  std::map<std::string, bool> used_;
  std::vector<std::string> problems_;
};

// Calls `take(first element, values)` with one piece of a stored tensor after the other.
class Window {
 public:
  explicit Window(int64_t bytes) : memory_(at::empty({std::max<int64_t>(bytes, 64)}, at::kByte)) {}

  template <class Take>
  void each(const WeightFiles::Source& source, const Take& take) {
    const StoredTensor& tensor = *source.tensor;
    const auto element = static_cast<int64_t>(c10::elementSize(tensor.dtype));
    const int64_t room = memory_.numel() / element;
    for (int64_t first = 0; first < tensor.numel(); first += room) {
      const int64_t count = std::min(room, tensor.numel() - first);
      source.file->read(tensor, first * element, count * element, memory_.data_ptr());
      take(first, at::from_blob(memory_.data_ptr(), {count}, tensor.dtype));
    }
  }

 private:
  at::Tensor memory_;
};

// All names of a tied weight must store the same values.
void check_equal(const Match& match, int64_t window_bytes) {
  for (size_t other = 1; other < match.sources.size(); ++other) {
    const StoredTensor& tensor = *match.sources[other].tensor;
    bool equal = tensor.dtype == match.sources[0].tensor->dtype;
    Window window(window_bytes);
    at::Tensor counterpart = at::empty({0}, tensor.dtype);
    window.each(match.sources[0], [&](int64_t first, const at::Tensor& values) {
      if (!equal) return;
      const auto element = static_cast<uint64_t>(values.element_size());
      counterpart.resize_({values.numel()});
      match.sources[other].file->read(tensor, first * element, values.nbytes(),
                                      counterpart.data_ptr());
      equal = std::memcmp(counterpart.data_ptr(), values.data_ptr(), values.nbytes()) == 0;
    });
    TORCH_CHECK(
        equal, "LibZeRO: '", match.sources[0].tensor->name, "' and '", tensor.name,
        "' are one weight in the model, but are stored with different values. Rename one of "
        "them away (LoadOptions::rename and ignore), or untie the weight.");
  }
}

void load(const Match& match, Window& window) {
  at::Tensor target = match.target.detach();
  if (match.transposed) target = target.t();
  const auto sizes = target.sizes();
  if (target.is_contiguous() && !match.transposed) {
    at::Tensor flat = target.view(-1);
    window.each(match.sources[0], [&](int64_t first, const at::Tensor& values) {
      flat.narrow(0, first, values.numel()).copy_(values);
    });
    return;
  }
  // Rows cannot be addressed as one run; the whole tensor is put together first.
  at::Tensor whole = at::empty(sizes, at::TensorOptions().dtype(match.sources[0].tensor->dtype));
  at::Tensor flat = whole.view(-1);
  window.each(match.sources[0], [&](int64_t first, const at::Tensor& values) {
    flat.narrow(0, first, values.numel()).copy_(values);
  });
  target.copy_(whole);
}

}  // namespace

LoadReport load_weights(torch::nn::Module& model, const std::filesystem::path& from,
                        const LoadOptions& options) {
  const at::NoGradGuard no_grad;
  const WeightFiles files(from);
  Matcher matcher(model, files, options);
  for (const auto& match : matcher.found) check_equal(match, options.window_bytes);
  Window window(options.window_bytes);
  LoadReport report = std::move(matcher.report);
  for (const auto& match : matcher.found) {
    load(match, window);
    ++report.tensors;
    report.bytes += static_cast<int64_t>(match.sources[0].tensor->bytes);
  }
  return report;
}

}  // namespace zero
