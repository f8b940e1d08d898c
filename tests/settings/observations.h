// SPDX-License-Identifier: Apache-2.0
// What each setting of the engine must change that can be seen from outside: one row a field. A
// setting that nothing acts on yet must end the run with an error; its row names a part of it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "settings/observed_run.h"

namespace zero::testing {

struct Observation {
  std::string_view field;
  std::string value = {};            // differs from the default
  std::string_view observable = {};  // in words
  // Its text with the default and with `value` must differ.
  std::function<std::string(const ObservedRun&)> of = {};
  Lines with = {};        // what the field needs, in both runs
  Lines also = {};        // what else the run with it needs, where the other run has no use for it
  std::string base = {};  // the other run's value, where the default cannot be left there
  std::set<int64_t> overflow_at = {};  // in both runs, see observed_run()
  int ranks = 1;
  std::string expected = {};  // with `value`; empty: anything but that of the default
  std::string error = {};     // what the run with `value` must end with, instead of an observable
};

const std::vector<Observation>& observations();

}  // namespace zero::testing
