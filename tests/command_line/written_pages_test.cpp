// SPDX-License-Identifier: Apache-2.0
// The pages in the tree that the program writes are what it would write today.
#include <gmock/gmock.h>

#include "command_line/program.h"
#include "plugin/config/key.h"

namespace zero::testing {
namespace {

const std::filesystem::path kSource = LIBZERO_SOURCE;

const Node* child(const Node& map, const std::string& key) {
  for (const Entry& entry : map.entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

TEST_F(CommandLine, TheConfigurationPageIsUpToDate) {
  EXPECT_EQ(zero({"config", "docs"}).out, contents(kSource / "docs/configuration.md"))
      << "write it again: zero config docs > docs/configuration.md";
}

TEST_F(CommandLine, TheSchemaIsUpToDate) {
  EXPECT_EQ(zero({"config", "schema"}).out, contents(kSource / "configs/schema.json"))
      << "write it again: zero config schema > configs/schema.json";
}

TEST_F(CommandLine, TheSchemaKnowsEveryKey) {
  const Document schema = parse_json(zero({"config", "schema"}).out, "schema.json");
  ASSERT_TRUE(schema.problems.empty()) << schema.problems.front();
  for (const TableRow& row : key_table()) {
    for (const std::string& name : row.names) {
      const Node* node = &schema.root;
      std::istringstream path(name);
      for (std::string key; node != nullptr && std::getline(path, key, '.');) {
        const Node* const properties = child(*node, "properties");
        node = properties == nullptr ? nullptr : child(*properties, key);
      }
      EXPECT_NE(node, nullptr) << name;
    }
  }
}

}  // namespace
}  // namespace zero::testing
