// SPDX-License-Identifier: Apache-2.0
// Configurations that people really train with, and ones that they got wrong. The files stay out
// of the project: the folder is named by LIBZERO_CASES, and without it these tests are skipped.
// Tests with configurations of our own for each kind are in kinds_test.cpp.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "tests/config/support.h"

namespace zero::config_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// Rows of a CSV text with quoted cells.
std::vector<std::vector<std::string>> csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows(1, std::vector<std::string>(1));
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      if (quoted && i + 1 < text.size() && text[i + 1] == '"') {
        rows.back().back() += text[++i];
      } else {
        quoted = !quoted;
      }
    } else if (c == ',' && !quoted) {
      rows.back().emplace_back();
    } else if (c == '\n' && !quoted) {
      rows.emplace_back(1);
    } else if (c != '\r') {
      rows.back().back() += c;
    }
  }
  return rows;
}

struct Outcome {
  std::vector<std::string> problems;
  std::vector<std::string> notices;
  RunConfig config;
  std::string text() const {
    std::string all;
    for (const auto& line : problems) all += "error " + line + "\n";
    for (const auto& line : notices) all += "note " + line + "\n";
    return all;
  }
};

Outcome outcome_of(const Flags& file, const StrategyOptions& caller = {}) {
  Outcome outcome;
  try {
    Resolved resolved = resolve_all(caller, {file}, {.world_size = 1});
    outcome.notices = resolved.notices;
    outcome.config = resolved.config;
  } catch (const ConfigError& error) {
    outcome.problems = error.problems();
    for (const auto& notice : file.notices) {
      outcome.notices.push_back(notice.key + ": " + notice.says);
    }
    outcome.config = file.values;
  }
  return outcome;
}

// Every leaf of the file, by the path as it is written.
void leaves(const Node& node, const std::string& path, std::vector<std::string>& all) {
  if (node.kind != Node::Kind::kMap) {
    all.push_back(path);
    return;
  }
  for (const Entry& entry : node.entries) {
    if (entry.key.starts_with('_') || entry.key.starts_with('#')) continue;
    leaves(entry.value, path.empty() ? entry.key : path + "." + entry.key, all);
  }
}

bool names(const std::string& text, const std::string& path) {
  for (size_t at = text.find(path); at != std::string::npos; at = text.find(path, at + 1)) {
    const char before = at == 0 ? ' ' : text[at - 1];
    const char after = at + path.size() < text.size() ? text[at + path.size()] : ' ';
    if ((before == ' ' || before == '\n') && (after == ':' || after == ',' || after == '.')) {
      return true;
    }
  }
  return false;
}

// The key or a section around it is set, denied, noted or refused by its path.
bool accounted_for(const std::string& path, const Flags& file, const Outcome& outcome) {
  for (const SettingRow* const row : setting_rows()) {
    if (row->given(file.values) && row->provenance(file.values).flag == path) return true;
  }
  for (const auto& denial : file.denials) {
    if (denial.from.flag == path) return true;
  }
  const std::string text = outcome.text();
  for (std::string around = path;; around = around.substr(0, around.rfind('.'))) {
    if (names(text, around)) return true;
    if (around.find('.') == std::string::npos) return false;
  }
}

class Cases : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const folder = std::getenv("LIBZERO_CASES");
    if (folder == nullptr) GTEST_SKIP() << "LIBZERO_CASES names no folder of cases";
    folder_ = folder;
  }
  std::vector<fs::path> configs() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_ / "configs")) {
      files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  fs::path folder_;
};

// What a trainer would supply for "auto".
StrategyOptions caller() {
  return StrategyOptions()
      .train_micro_batch_size_per_gpu(1)
      .gradient_accumulation_steps(1)
      .train_batch_size(1)
      .gradient_clipping(1.0);
}

TEST_F(Cases, EveryKeyOfEveryConfigIsSetNotedOrRefusedByItsPath) {
  for (const fs::path& file : configs()) {
    const Document document = read_document(file);
    ASSERT_TRUE(document.problems.empty()) << document.problems.front();
    const Flags flags = read_flags(document);
    const Outcome outcome = outcome_of(flags);
    std::vector<std::string> all;
    leaves(document.root, "", all);
    for (const std::string& path : all) {
      EXPECT_TRUE(accounted_for(path, flags, outcome)) << file << ": " << path << "\n"
                                                       << outcome.text();
    }
  }
}

TEST_F(Cases, EveryProblemOfAConfigHasPlacePathAndReason) {
  for (const fs::path& file : configs()) {
    for (const std::string& problem : outcome_of(read_config_file(file)).problems) {
      EXPECT_THAT(problem, ::testing::MatchesRegex(".*json:[0-9]+:[0-9]+: [^ ]+.*: .+")) << problem;
    }
  }
}

TEST_F(Cases, ConfigsLoadWhenTheCallerSaysWhatIsAuto) {
  size_t loaded = 0;
  size_t files = 0;
  for (const fs::path& file : configs()) {
    const Outcome outcome = outcome_of(read_config_file(file), caller());
    ++files;
    if (outcome.problems.empty()) ++loaded;
    if (std::getenv("LIBZERO_CASES_PRINT") != nullptr) {
      std::cout << "== " << file.filename().string() << "\n" << outcome.text();
    }
  }
  std::cout << loaded << " of " << files << " load\n";
  EXPECT_GT(loaded * 3, files);
}

struct Expected {
  bool refused;
  std::vector<std::string> says;
};

const std::map<std::string, Expected>& expectations() {
  static const std::map<std::string, Expected> all = {
      {"B01",
       {true,
        {"zero_optimization.stage3_param_persitence_threshold: unknown key",
         "did you mean stage3_param_persistence_threshold?"}}},
      {"B03", {true, {"did you mean gradient_accumulation_steps?"}}},
      {"B05",
       {true,
        {"did you mean cpu_offload?", "deprecated", "offload_optimizer {\"device\": \"cpu\"}"}}},
      {"B06", {false, {"cpu_offload_params", "offload_param {\"device\": \"cpu\"}"}}},
      {"B08", {true, {"lr_scheduler", "did you mean scheduler?"}}},
      {"B10",
       {true,
        {"sub_group_size: unknown key; it belongs in zero_optimization",
         "overlap_comm: unknown key; it belongs in zero_optimization",
         "reduce_bucket_size: unknown key; it belongs in zero_optimization", "zero_stage",
         "here it is zero_optimization.stage"}}},
      {"B11",
       {true, {"zero_optimization.zero_allow_untested_optimizer", "belongs at the top level"}}},
      {"B13", {false, {"aio.thread_count", "old or other name of aio.intra_op_parallelism"}}},
      {"B15",
       {true,
        {"bf16 has no loss scaling; these keys belong to fp16",
         "bf16.loss_scale, bf16.initial_scale_power, bf16.loss_scale_window, bf16.hysteresis, "
         "bf16.min_loss_scale"}}},
      {"B16", {true, {"fp16.enabled", "bf16.enabled", "switch one of the two off"}}},
      {"B18", {false, {"gradient_accumulation_steps", "the string \"8\"", "the string \"true\""}}},
      {"B20", {true, {"gradient_clipping: must be a number", "auto"}}},
      {"B21",
       {true,
        {"train_batch_size, train_micro_batch_size_per_gpu, gradient_accumulation_steps",
         "StrategyOptions"}}},
      {"B23", {false, {"stage3_prefetch_bucket_size", "rounded 15099494.4 down to 15099494"}}},
      {"B25", {false, {"optimizer.params.lr", "2e-5"}}},
      {"B26",
       {true,
        {"8 is not train_micro_batch_size_per_gpu 2 x gradient_accumulation_steps 1 x 1 rank = 2",
         "set train_batch_size to 2", "4 ranks"}}},
      {"B28", {false, {"train_batch_size", "train_micro_batch_size_per_gpu"}}},
      {"B30",
       {false,
        {"stage3_max_live_parameters", "stage3_gather_16bit_weights_on_model_save",
         "acts at stage 3 only"}}},
      {"B31", {true, {"offload_param.device", "is nvme, but nvme_path is missing"}}},
      {"B33", {false, {"zero_optimization.offload_optimizer", "{device: cpu}"}}},
      {"B35", {false, {}}},
      {"B36", {false, {}}},
      {"B38", {true, {"gradient_clipping: must be a number", "did you mean 1.0?"}}},
      {"B40", {false, {"optimizer.params.max_grad_norm", "gradient_clipping"}}},
      {"B41", {true, {"fp16.min_loss_scale", "above 0"}}},
      {"B43", {true, {"zero_optimization.reduce_bucket_size", "at least 1"}}},
      {"B45", {false, {}}},
      {"B46", {false, {}}},
      {"B48", {true, {"contiguous_memory_optimization", "number_checkpoints"}}},
      {"B50",
       {true,
        {"activation_checkpointing.enabled: unknown key", "gradient_checkpointing",
         "Hugging Face"}}},
      {"B51",
       {true,
        {"zero_optimization.cpu_checkpointing: unknown key; it belongs in activation_checkpointing",
         "zero_optimization.partition_activations: unknown key; it belongs in "
         "activation_checkpointing"}}},
      {"B53", {true, {"zero_optimization", "B53.json:1:23", "B53.json:1:55"}}},
      {"B55", {true, {"train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}}},
      {"B56", {true, {"torch_autocast.enable", "did you mean enabled?"}}},
      {"B58",
       {true,
        {"pipeline", "not supported", "pipeline.micro_batch_size",
         "pipeline.pipeline_parallel_size", "unknown key"}}},
      {"B60", {false, {}}},
      {"B61", {false, {"zero_optimization", "read as a section that holds only stage"}}},
      {"B63", {false, {"null"}}},
      {"B65", {false, {"zero_optimization.stage", "read the string \"3\" as 3"}}},
      {"B66", {true, {"zero_optimization.stage: must be 0, 1, 2 or 3"}}},
      {"B68",
       {true,
        {"optimizer.params.torch_adam: must be true or false, got the string \"torch_impl\""}}},
      {"B70", {true, {"zero_optimization.aio", "belongs at the top level"}}},
      {"B71", {true, {"zero_optimization.gradient_predivide_factor", "belongs at the top level"}}},
      {"B73",
       {true,
        {"sub_group_size: unknown key; it belongs in zero_optimization",
         "amp and fp16 exclude each other"}}},
      {"B75",
       {true, {"checkpoint.tag_validation: must be Ignore, Warn or Fail (any letter case)"}}},
      {"B76", {true, {"zero_quantized_gradients: must be true or false"}}},
      {"B78", {true, {"did you mean max_train_batch_size?", "did you mean micro_batch_sizes?"}}},
      {"B80", {true, {"allgather_bucket_size", "reduce_bucket_size", "at least 1"}}},
      {"B81",
       {true,
        {"zero_optimization.sparse_attention: unknown key; it belongs at the top level",
         "nvme_path is missing"}}},
      {"B83",
       {true,
        {"WarmupCosineLR has no warmup_max_lr or warmup_min_lr", "WarmupDecayLR",
         "warmup_min_ratio"}}},
  };
  return all;
}

TEST_F(Cases, BrokenConfigsAreAnsweredWithTheFacts) {
  const auto rows = csv(text_of(folder_ / "broken.csv"));
  size_t seen = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    const std::vector<std::string>& row = rows[i];
    if (row.size() < 4) continue;
    const auto expected = expectations().find(row[0]);
    const Outcome outcome = outcome_of(parse_json_config(row[2], row[0] + ".json"));
    if (expected == expectations().end()) {
      std::cout << row[0] << " has no expectation here:\n" << outcome.text();
      continue;
    }
    ++seen;
    EXPECT_EQ(!outcome.problems.empty(), expected->second.refused) << row[0] << "\n"
                                                                   << outcome.text();
    for (const std::string& part : expected->second.says) {
      EXPECT_THAT(outcome.text(), HasSubstr(part)) << row[0] << ": " << row[3];
    }
  }
  EXPECT_GT(seen, 0U);
}

}  // namespace
}  // namespace zero::config_test
