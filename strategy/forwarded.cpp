// SPDX-License-Identifier: Apache-2.0
#include "strategy/forwarded.h"

#include <algorithm>
#include <array>
#include <vector>

#include "plugin/config/fields.h"

namespace zero {

std::string forwarded_report(const EngineConfig& config) {
  using Row = std::array<std::string, 6>;
  std::vector<Row> rows = {{"flag", "engine key", "value", "source", "consumer", "read"}};
  for (const auto& field : fields<EngineConfig>()) {
    const Provenance& from = provenance_of(field, config);
    rows.push_back({given(field, config) ? from.flag : "-", std::string(field.name),
                    value_text(field, config), from.where, name_of(field.consumer),
                    read_by_consumer(field, config) ? "yes" : "not yet"});
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

}  // namespace zero
