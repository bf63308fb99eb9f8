// TOML files that people write, read strictly: every key is asked for or refused with its line and the
// nearest known key, and every value is of the type that was expected.
#pragma once

#include <toml++/toml.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/error.h"

namespace trireme {

using Names = std::set<std::string, std::less<>>;

// Throws Error with `origin` and the line for what is no TOML. `expected` is what such a file holds.
toml::table parse_toml(std::string_view text, std::string_view origin, std::string_view expected);

// One table of a file. A key that is not there leaves its value as it was. finish() refuses what was not
// asked for.
class TomlTable {
 public:
  // `what` names the table in messages.
  TomlTable(const toml::table& table, std::string_view origin, std::string what)
      : table_(table), origin_(origin), what_(std::move(what)) {}

  void operator()(std::string_view key, std::string& value);
  void operator()(std::string_view key, double& value);  // 0 or more
  void operator()(std::string_view key, bool& value);
  void operator()(std::string_view key, int& value);
  void operator()(std::string_view key, std::vector<double>& values);
  void operator()(std::string_view key, std::vector<std::string>& names);
  void operator()(std::string_view key, Names& names);
  // Types of the reader's own: a function read_toml(const TomlTable&, node, key, value) beside them reads
  // one.
  template <typename Value>
  void operator()(std::string_view key, Value& value) {
    if (const toml::node* node = find(key)) read_toml(*this, *node, key, value);
  }

  // A table of numbers: set(name, number, node) for each.
  template <typename Set>
  void each(std::string_view key, const Set& set) {
    const toml::node* node = find(key);
    if (!node) return;
    for (const auto& [name, item] : table_of(*node, key))
      set(std::string(name.str()), number(item, name.str()), item);
  }
  // A table within this one.
  template <typename Read>
  void table(std::string_view key, const Read& read) {
    const toml::node* node = find(key);
    if (!node) return;
    TomlTable inner(table_of(*node, key), origin_, std::string(what_).append(".").append(key));
    read(inner);
    inner.finish();
  }
  // An array of tables, [[key]].
  template <typename Read>
  void tables(std::string_view key, const Read& read) {
    const toml::node* node = find(key);
    if (!node) return;
    const toml::array* array = node->as_array();
    if (!array) throw_error("{}: '{}' is written [[{}]], one for each", where(*node), key, key);
    for (const toml::node& item : *array) {
      TomlTable inner(table_of(item, key), origin_, std::string("[[").append(key).append("]]"));
      read(inner);
      inner.finish();
    }
  }
  void finish() const;

  // For read_toml(): what a value is, or an Error.
  double number(const toml::node& node, std::string_view key) const;
  std::vector<double> numbers(const toml::node& node, std::string_view key) const;
  const toml::table& table_of(const toml::node& node, std::string_view key) const;
  [[noreturn]] void refuse(const toml::node& node, std::string_view key, std::string_view expected) const;
  std::string where(const toml::node& node) const;  // "file:line"

 private:
  const toml::node* find(std::string_view key);
  std::string text(const toml::node& node, std::string_view key) const;

  const toml::table& table_;
  std::string_view origin_;
  std::string what_;
  Names known_;
};

}  // namespace trireme
