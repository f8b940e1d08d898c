// SPDX-License-Identifier: Apache-2.0
// One setting of RunConfig, whatever group and type it has: the rows of the four tables in
// fields.h behind one face.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plugin/config/fields.h"

namespace zero {

class SettingRow {
 public:
  virtual ~SettingRow() = default;

  virtual std::string_view name() const = 0;
  virtual std::string_view help() const = 0;
  virtual Consumer consumer() const = 0;
  virtual std::string_view acts_when() const = 0;
  virtual std::string_view path() const = 0;  // empty: known by its flat name alone
  virtual const std::vector<std::string_view>& aliases() const = 0;
  virtual const std::vector<std::string_view>& of_types() const = 0;
  virtual Unit unit() const = 0;
  virtual int needs_stage() const = 0;
  virtual int acts_at_stage() const = 0;
  virtual AutoFrom auto_from() const = 0;
  // "bool", "int", "number", "text", "list" or "choice".
  virtual std::string_view type() const = 0;
  // "true or false", "a whole number of at least 1".
  virtual std::string allowed() const = 0;
  virtual std::vector<std::string_view> choices() const = 0;
  virtual Range range() const = 0;

  virtual Taken set(RunConfig& config, const Node& node, Provenance provenance) const = 0;
  virtual void set_auto(RunConfig& config, Provenance provenance) const = 0;
  virtual std::string value_text(const RunConfig& config) const = 0;
  virtual bool given(const RunConfig& config) const = 0;
  virtual bool automatic(const RunConfig& config) const = 0;
  virtual const Provenance& provenance(const RunConfig& config) const = 0;
  virtual bool read_by_consumer(const RunConfig& config) const = 0;
  // What is wrong with the value by itself; empty: nothing.
  virtual std::string problem(const RunConfig& config) const = 0;
  // Takes what `layer` gives, where nothing stronger has given it already.
  virtual void overlay(const RunConfig& layer, RunConfig& config) const = 0;
  // Back to the default, by the word of `provenance`.
  virtual void reset(RunConfig& config, Provenance provenance) const = 0;
};

// Engine, optimizer, scheduler, trainer; in table order.
const std::vector<const SettingRow*>& setting_rows();
// By its name, not by an alias; null when there is none.
const SettingRow* find_setting(std::string_view name);

}  // namespace zero
