// SPDX-License-Identifier: Apache-2.0
#include "plugin/config/setting_row.h"

#include <memory>
#include <type_traits>

namespace zero {
namespace {

auto& group(RunConfig& config, const EngineConfig*) { return config.engine; }
auto& group(RunConfig& config, const OptimizerSettings*) { return config.optimizer; }
auto& group(RunConfig& config, const SchedulerSettings*) { return config.scheduler; }
auto& group(RunConfig& config, const TrainerSettings*) { return config.trainer; }

template <class Value>
std::string_view type_name() {
  if constexpr (std::is_same_v<Value, bool>) return "bool";
  if constexpr (std::is_same_v<Value, double>) return "number";
  if constexpr (std::is_same_v<Value, std::string>) return "text";
  if constexpr (std::is_same_v<Value, std::vector<double>>) return "list";
  if constexpr (std::is_enum_v<Value>) return "choice";
  return "int";
}

template <class Config>
class Row final : public SettingRow {
 public:
  explicit Row(const Field<Config>& field) : field_(field) {}

  std::string_view name() const override { return field_.name; }
  std::string_view help() const override { return field_.help; }
  Consumer consumer() const override { return field_.consumer; }
  std::string_view acts_when() const override { return field_.acts_when; }
  std::string_view path() const override { return field_.path; }
  const std::vector<std::string_view>& aliases() const override { return field_.aliases; }
  const std::vector<std::string_view>& of_types() const override { return field_.of_types; }
  Unit unit() const override { return field_.unit; }
  int needs_stage() const override { return field_.needs_stage; }
  int acts_at_stage() const override { return field_.acts_at_stage; }
  AutoFrom auto_from() const override { return field_.auto_from; }
  std::string_view type() const override {
    return with_setting(field_, Config(), [](const auto& setting) {
      return type_name<std::remove_cvref_t<decltype(setting.peek())>>();
    });
  }
  std::string allowed() const override { return allowed_values(field_); }
  std::vector<std::string_view> choices() const override {
    if (!field_.one_of.empty()) return field_.one_of;
    return with_setting(field_, Config(), [](const auto& setting) {
      return zero::choices<std::remove_cvref_t<decltype(setting.peek())>>();
    });
  }
  Range range() const override { return field_.range; }

  Taken set(RunConfig& config, const Node& node, Provenance provenance) const override {
    return set_from_node(field_, in(config), node, std::move(provenance));
  }
  void set_auto(RunConfig& config, Provenance provenance) const override {
    with_setting(field_, in(config),
                 [&](auto& setting) { setting.set_auto(std::move(provenance)); });
  }
  std::string value_text(const RunConfig& config) const override {
    return automatic(config) ? "auto" : zero::value_text(field_, in(config));
  }
  bool given(const RunConfig& config) const override { return zero::given(field_, in(config)); }
  bool automatic(const RunConfig& config) const override {
    return with_setting(field_, in(config),
                        [](const auto& setting) { return setting.automatic(); });
  }
  const Provenance& provenance(const RunConfig& config) const override {
    return provenance_of(field_, in(config));
  }
  bool read_by_consumer(const RunConfig& config) const override {
    return zero::read_by_consumer(field_, in(config));
  }
  std::string problem(const RunConfig& config) const override {
    return value_problem(field_, in(config));
  }
  void overlay(const RunConfig& layer, RunConfig& config) const override {
    std::visit(
        [&](auto member) {
          const auto& theirs = in(layer).*member;
          auto& ours = in(config).*member;
          if (theirs.given() && theirs.provenance().source >= ours.provenance().source) {
            ours = theirs;
          }
        },
        field_.member);
  }
  void reset(RunConfig& config, Provenance provenance) const override {
    std::visit(
        [&](auto member) { (in(config).*member).set((Config().*member).peek(), provenance); },
        field_.member);
  }

 private:
  static Config& in(RunConfig& config) { return group(config, static_cast<Config*>(nullptr)); }
  static const Config& in(const RunConfig& config) {
    return group(const_cast<RunConfig&>(config),
                 static_cast<Config*>(nullptr));  // NOLINT: read only
  }
  const Field<Config>& field_;
};

using Owned = std::vector<std::unique_ptr<const SettingRow>>;

template <class Config>
void append(Owned& rows) {
  for (const Field<Config>& field : fields<Config>()) {
    rows.push_back(std::make_unique<Row<Config>>(field));
  }
}

const Owned& owned_rows() {
  static const Owned all = [] {
    Owned rows;
    append<EngineConfig>(rows);
    append<OptimizerSettings>(rows);
    append<SchedulerSettings>(rows);
    append<TrainerSettings>(rows);
    return rows;
  }();
  return all;
}

}  // namespace

const std::vector<const SettingRow*>& setting_rows() {
  static const std::vector<const SettingRow*> all = [] {
    std::vector<const SettingRow*> rows;
    for (const auto& row : owned_rows()) rows.push_back(row.get());
    return rows;
  }();
  return all;
}

const SettingRow* find_setting(std::string_view name) {
  for (const SettingRow* const row : setting_rows()) {
    if (row->name() == name) return row;
  }
  return nullptr;
}

}  // namespace zero
