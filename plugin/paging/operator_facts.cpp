// SPDX-License-Identifier: Apache-2.0
#include "plugin/paging/operator_facts.h"

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace zero {

namespace {

bool makes_views_only(const c10::FunctionSchema& schema) {
  bool aliases = false;
  for (const auto& result : schema.returns()) {
    if (result.alias_info() == nullptr) continue;
    if (result.alias_info()->isWrite()) return false;
    aliases = true;
  }
  for (const auto& argument : schema.arguments()) {
    if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) return false;
  }
  return aliases;
}

bool asks_for_metadata_only(const std::string& name) {
  static const std::unordered_set<std::string> names{"aten::empty_like",
                                                     "aten::zeros_like",
                                                     "aten::ones_like",
                                                     "aten::full_like",
                                                     "aten::rand_like",
                                                     "aten::randn_like",
                                                     "aten::randint_like",
                                                     "aten::new_empty",
                                                     "aten::new_zeros",
                                                     "aten::new_ones",
                                                     "aten::new_full",
                                                     "aten::new_empty_strided",
                                                     "aten::is_same_size",
                                                     "aten::result_type",
                                                     "aten::sym_size",
                                                     "aten::sym_stride",
                                                     "aten::sym_numel",
                                                     "aten::sym_storage_offset",
                                                     "aten::_has_compatible_shallow_copy_type",
                                                     "aten::is_pinned",
                                                     "aten::is_set_to",
                                                     "aten::is_contiguous"};
  return names.count(name) > 0;
}

// Written by their kernels although their schemas carry no alias annotation.
bool writes_without_saying(const std::string& op, const std::string& argument) {
  static const std::unordered_set<std::string> names{
      "aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::_batch_norm_impl_index",
      "aten::batch_norm", "aten::instance_norm"};
  return argument.rfind("running_", 0) == 0 && names.count(op) > 0;
}

// Those that LibTorch has not tagged as reductions.
bool mixes_elements(const std::string& name) {
  static const std::unordered_set<std::string> names{
      "aten::dot",      "aten::vdot",     "aten::mv",           "aten::mm",
      "aten::bmm",      "aten::addmm",    "aten::addmv",        "aten::matmul",
      "aten::outer",    "aten::median",   "aten::sort",         "aten::topk",
      "aten::kthvalue", "aten::cumsum",   "aten::cumprod",      "aten::trace",
      "aten::softmax",  "aten::_softmax", "aten::histc",        "aten::_log_softmax",
      "aten::renorm",   "aten::dist",     "aten::logcumsumexp", "aten::_foreach_norm"};
  return names.count(name) > 0;
}

OperatorFacts read_facts(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  OperatorFacts facts;
  facts.replaces_storage = schema.name() == "aten::set_" && schema.arguments().size() > 1;
  facts.reads_no_bytes = !facts.replaces_storage &&
                         (makes_views_only(schema) || asks_for_metadata_only(schema.name()));
  facts.reduces = op.hasTag(at::Tag::reduction) || mixes_elements(schema.name());
  for (const auto& argument : schema.arguments()) {
    const bool annotated = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    facts.writes.push_back(annotated || writes_without_saying(schema.name(), argument.name()));
  }
  return facts;
}

}  // namespace

const OperatorFacts& facts_of(const c10::OperatorHandle& op) {
  static std::shared_mutex mutex;
  static std::unordered_map<c10::OperatorName, std::unique_ptr<OperatorFacts>> known;
  {
    std::shared_lock lock(mutex);
    const auto found = known.find(op.operator_name());
    if (found != known.end()) return *found->second;
  }
  std::unique_lock lock(mutex);
  auto& entry = known[op.operator_name()];
  if (!entry) entry = std::make_unique<OperatorFacts>(read_facts(op));
  return *entry;
}

}  // namespace zero
