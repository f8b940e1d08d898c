// SPDX-License-Identifier: Apache-2.0
#include "zero/engine_config.h"

namespace zero {
namespace {

std::string headline(const std::vector<std::string>& problems) {
  std::string text = problems.size() == 1 ? "The configuration has a problem:"
                                          : "The configuration has " +
                                                std::to_string(problems.size()) + " problems:";
  for (const std::string& problem : problems) text += "\n  " + problem;
  return text;
}

}  // namespace

ConfigError::ConfigError(std::vector<std::string> problems)
    : std::runtime_error(headline(problems)), problems_(std::move(problems)) {}

const char* name_of(Consumer consumer) {
  switch (consumer) {
    case Consumer::kPartition:
      return "partition";
    case Consumer::kPaging:
      return "paging";
    case Consumer::kGradients:
      return "gradients";
    case Consumer::kOptimizer:
      return "optimizer";
    case Consumer::kActivations:
      return "activations";
    case Consumer::kMemory:
      return "memory";
    case Consumer::kStrategy:
      return "strategy";
    case Consumer::kScheduler:
      return "scheduler";
    case Consumer::kTrainer:
      return "trainer";
  }
  return "unknown";
}

}  // namespace zero
