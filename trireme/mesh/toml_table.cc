#include "trireme/mesh/toml_table.h"

#include <cmath>
#include <sstream>

#include "trireme/base/input_file.h"
#include "trireme/base/text.h"

namespace trireme {

toml::table parse_toml(std::string_view text, std::string_view origin, std::string_view expected) {
  check_toml_depth(text, origin, expected);
  try {
    return toml::parse(text, origin);
  } catch (const toml::parse_error& error) {
    throw_error("{}:{}: not TOML: {}", origin, error.source().begin.line, error.description());
  }
}

void TomlTable::operator()(std::string_view key, std::string& value) {
  if (const toml::node* node = find(key)) value = text(*node, key);
}
void TomlTable::operator()(std::string_view key, double& value) {
  if (const toml::node* node = find(key)) value = number(*node, key);
}
void TomlTable::operator()(std::string_view key, bool& value) {
  const toml::node* node = find(key);
  if (!node) return;
  if (!node->is_boolean()) refuse(*node, key, "true or false");
  value = node->as_boolean()->get();
}
void TomlTable::operator()(std::string_view key, int& value) {
  const toml::node* node = find(key);
  if (!node) return;
  const double read = number(*node, key);
  if (read != std::floor(read) || std::abs(read) > 1e9)
    throw_error("{}: {} is {}; a whole number expected", where(*node), key, read);
  value = static_cast<int>(read);
}
void TomlTable::operator()(std::string_view key, std::vector<double>& values) {
  if (const toml::node* node = find(key)) values = numbers(*node, key);
}
void TomlTable::operator()(std::string_view key, std::vector<std::string>& names) {
  const toml::node* node = find(key);
  if (!node) return;
  const toml::array* array = node->as_array();
  if (!array) refuse(*node, key, "a list of names in quotes");
  for (const toml::node& item : *array) names.push_back(text(item, key));
}
void TomlTable::operator()(std::string_view key, Names& names) {
  std::vector<std::string> list;
  (*this)(key, list);
  names.insert(list.begin(), list.end());
}

void TomlTable::finish() const {
  for (const auto& [key, node] : table_) {
    const std::string name(key.str());
    if (known_.contains(name)) continue;
    const std::vector<std::string> known(known_.begin(), known_.end());
    throw_error("{}: {} has no key '{}'; {}", where(node), what_, name, suggestion(name, known));
  }
}

double TomlTable::number(const toml::node& node, std::string_view key) const {
  const auto value = node.is_number() ? node.value<double>() : std::nullopt;
  if (!value || !std::isfinite(*value) || *value < 0) refuse(node, key, "a number, 0 or more,");
  return *value;
}

std::vector<double> TomlTable::numbers(const toml::node& node, std::string_view key) const {
  const toml::array* array = node.as_array();
  if (!array) refuse(node, key, "a list of numbers");
  std::vector<double> values;
  for (const toml::node& item : *array) values.push_back(number(item, key));
  return values;
}

const toml::table& TomlTable::table_of(const toml::node& node, std::string_view key) const {
  const toml::table* table = node.as_table();
  if (!table) refuse(node, key, "a table");
  return *table;
}

void TomlTable::refuse(const toml::node& node, std::string_view key, std::string_view expected) const {
  std::ostringstream found;
  found << node.type();
  throw_error("{}: {} of {} is {}; {} expected", where(node), key, what_, found.str(), expected);
}

std::string TomlTable::where(const toml::node& node) const {
  return fmt::format("{}:{}", origin_, node.source().begin.line);
}

const toml::node* TomlTable::find(std::string_view key) {
  known_.insert(std::string(key));
  return table_.get(key);
}

std::string TomlTable::text(const toml::node& node, std::string_view key) const {
  const auto value = node.value_exact<std::string>();
  if (!value) refuse(node, key, "a text in quotes");
  // Names are printed; what a terminal would obey is none.
  if (printable(*value) != *value)
    throw_error("{}: {} of {} has control characters; a text of printable ones expected", where(node), key,
                what_);
  return *value;
}

}  // namespace trireme
