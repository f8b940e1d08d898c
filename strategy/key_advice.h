// SPDX-License-Identifier: Apache-2.0
// Why a key is not known where it stands, and what was probably meant.
#pragma once

#include <string>
#include <string_view>

#include "plugin/config/document.h"

namespace zero {

struct UnknownKey {
  std::string_view key;
  std::string_view section;     // whole path, "" at the top
  const Node* value = nullptr;  // null: not known
  bool flat_names = false;      // flags may stand here without their section
};

// "unknown key; did you mean ...?"
std::string advice_for(const UnknownKey& unknown);

// A remedy for a name that another tool taught, as a clause; empty for names that are not known.
std::string_view advice_for_foreign_name(std::string_view key);

}  // namespace zero
