// SPDX-License-Identifier: Apache-2.0
// The JSON header of a safetensors file. Made for hostile input: nothing is built from the text but
// the entries themselves, nesting deeper than the format has is refused where it begins, and every
// number is checked before it is used.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plugin/state/safetensors.h"

namespace zero {

// Entries in order of their bytes. `data_begin` is where the tensors' bytes begin in the file,
// `data_bytes` how many there are. Throws with `file` in the message.
std::vector<StoredTensor> parse_safetensors_header(std::string_view text, uint64_t data_begin,
                                                   uint64_t data_bytes, const std::string& file);

}  // namespace zero
