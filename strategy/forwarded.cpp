// SPDX-License-Identifier: Apache-2.0
#include "strategy/forwarded.h"

#include <algorithm>
#include <array>
#include <vector>

#include "plugin/config/setting_row.h"

namespace zero {

namespace {

bool is_reported(const SettingRow& row, const RunConfig& config) {
  return row.given(config) || find_field<EngineConfig>(row.name()) != nullptr;
}

std::string json_text(std::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      json.append("\\u00").append(1, kDigits[static_cast<size_t>(c) >> 4]);
      json.append(1, kDigits[static_cast<size_t>(c) & 15]);
    } else {
      json += c;
    }
  }
  return json + "\"";
}

std::string_view name_of(Source source) {
  switch (source) {
    case Source::kDefault:
      return "default";
    case Source::kPreset:
      return "preset";
    case Source::kFile:
      return "file";
    case Source::kEnvironment:
      return "environment";
    case Source::kCommandLine:
      return "command line";
    case Source::kCode:
      return "code";
  }
  return "unknown";
}

}  // namespace

std::string forwarded_report(const RunConfig& config) {
  using Row = std::array<std::string, 6>;
  std::vector<Row> rows = {{"flag", "engine key", "value", "source", "consumer", "read"}};
  for (const SettingRow* const row : setting_rows()) {
    if (!is_reported(*row, config)) continue;
    const Provenance& from = row->provenance(config);
    rows.push_back({row->given(config) ? from.flag : "-", std::string(row->name()),
                    row->value_text(config), from.where, name_of(row->consumer()),
                    row->read_by_consumer(config) ? "yes" : "not yet"});
  }
  std::array<size_t, 6> width{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  }
  std::string table;
  for (const Row& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      table += row[i] + std::string(width[i] + 2 - row[i].size(), ' ');
    }
    table += row.back() + "\n";
  }
  return table;
}

std::string forwarded_json(const RunConfig& config) {
  std::string json = "[";
  for (const SettingRow* const row : setting_rows()) {
    if (!is_reported(*row, config)) continue;
    const Provenance& from = row->provenance(config);
    json.append(json.size() > 1 ? ",\n " : "\n ").append("{\"flag\": ");
    json.append(row->given(config) ? json_text(from.flag) : "null");
    json.append(", \"key\": ").append(json_text(row->name()));
    json.append(", \"value\": ").append(json_text(row->value_text(config)));
    json.append(", \"source\": ").append(json_text(name_of(from.source)));
    json.append(", \"where\": ").append(json_text(from.where));
    json.append(", \"consumer\": ").append(json_text(name_of(row->consumer())));
    json.append(", \"read\": ").append(row->read_by_consumer(config) ? "true" : "false");
    json.append("}");
  }
  return json + "\n]\n";
}

}  // namespace zero
