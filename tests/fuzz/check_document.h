// SPDX-License-Identifier: Apache-2.0
// What must hold for every document that the readers return, whatever the text was.
#pragma once

#include "plugin/config/document.h"

namespace zero::fuzz {

// Aborts where it does not hold: each problem is one line, nothing but ConfigError is thrown, and a
// document without problems means the same when it is written in the other language and read again.
void check_document(const Document& document);

}  // namespace zero::fuzz
