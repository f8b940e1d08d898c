// SPDX-License-Identifier: Apache-2.0
// A configuration document as YAML or JSON text: the same keys and values in the same order, which
// the readers understand as before. Comments are not part of a document.
#pragma once

#include <string>
#include <string_view>

#include "plugin/config/document.h"

namespace zero {

std::string yaml_text(const Node& root);
std::string json_text(const Node& root);
// In double quotes, escaped as JSON and YAML have it.
std::string in_quotes(std::string_view text);

}  // namespace zero
