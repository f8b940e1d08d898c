// SPDX-License-Identifier: Apache-2.0
// What to write here instead of names that other tools taught.
#pragma once

#include <string_view>

namespace zero {

// A remedy as a clause, empty for names that are not known.
std::string_view advice_for_foreign_name(std::string_view key);

}  // namespace zero
