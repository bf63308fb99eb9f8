// Merging of the sources: each later one overwrites, field by field, what an earlier one set, and leaves
// its name as the origin. The TOML reader is seen here only.
#include "trireme/run/config.h"

#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/base/input_file.h"
#include "trireme/mesh/toml_table.h"
#include "trireme/models/model.h"
#include "trireme/run/config_fields.h"

namespace trireme {
namespace {

constexpr std::string_view kPrefix = "TRIREME_";
constexpr std::string_view kDefault = "default";

std::string family_default(std::string_view family) {
  return fmt::format("{} of {}", kDefault, family);
}

// The fields being filled, and where each value came from.
class Merge {
 public:
  Merge(ResolvedConfig& resolved, const ModelRecord* own)
      : fields_(config_fields(resolved.config)), origins_(resolved.origins) {
    for (Field& field : fields_) {
      origins_[field.name] = kDefault;
      if (own && field.name == "model.family") field.choices.push_back(own->family);
    }
  }

  const Field& find(const std::string& name, std::string_view where) const {
    for (const Field& field : fields_) {
      if (field.name == name) return field;
    }
    refuse_name(name, where);
  }
  bool has_section(std::string_view name) const {
    return std::any_of(fields_.begin(), fields_.end(),
                       [&](const Field& field) { return field.section() == name; });
  }
  // Whether there are settings whose names go on after this one.
  bool has_table(const std::string& name) const {
    return std::ranges::any_of(fields_,
                               [&](const Field& field) { return field.name.starts_with(name + "."); });
  }
  void came_from(const Field& field, std::string origin) { origins_[field.name] = std::move(origin); }
  // The model's own defaults, for what nobody has set.
  void take_defaults(const ModelRecord& model) {
    const std::string origin = family_default(model.family);
    for (const auto& [name, value] : model.defaults) {
      const Field& field = find(name, origin);
      if (origins_.at(name) != kDefault) continue;
      assign_text(field, value, origin);
      came_from(field, origin);
    }
  }

 private:
  std::vector<Field> fields_;
  std::map<std::string, std::string, std::less<>>& origins_;
};

std::string place(const std::string& file, const toml::source_region& source) {
  return fmt::format("{}:{}", file, source.begin.line);
}

double group_number(const Field& field, const toml::node& node, const std::string& where) {
  const std::optional<double> number = node.is_number() ? node.value<double>() : std::nullopt;
  if (!number) refuse_value(field, "a table in which a number was expected", where);
  return *number;
}

ParameterGroup group_from(const Field& field, const toml::table& table, const std::string& where) {
  ParameterGroup group;
  for (const auto& [key, node] : table) {
    if (key == "match" && node.is_string())
      group.match = **node.as_string();
    else if (key == "lr_scale")
      group.lr_scale = group_number(field, node, where);
    else if (key == "weight_decay")
      group.weight_decay = group_number(field, node, where);
    else
      refuse_value(field, fmt::format("a table with the key '{}'", key.str()), where);
  }
  return group;
}

void assign_node(const Field& field, const toml::node& node, const std::string& where) {
  if (auto* integer = node.as_integer()) return assign(field, integer->get(), where);
  if (auto* number = node.as_floating_point()) return assign(field, number->get(), where);
  if (auto* flag = node.as_boolean()) return assign(field, flag->get(), where);
  if (auto* text = node.as_string()) return assign(field, text->get(), where);
  const toml::array* array = node.as_array();
  if (array && std::holds_alternative<std::vector<double>*>(field.value)) {
    std::vector<double> values;
    for (const toml::node& element : *array) {
      const std::optional<double> number = element.is_number() ? element.value<double>() : std::nullopt;
      if (!number) refuse_value(field, "an array that does not hold numbers alone", where);
      values.push_back(*number);
    }
    return assign(field, values, where);
  }
  if (array && std::holds_alternative<std::vector<std::string>*>(field.value)) {
    std::vector<std::string> values;
    for (const toml::node& element : *array) {
      if (!element.is_string()) refuse_value(field, "an array that does not hold strings alone", where);
      values.push_back(**element.as_string());
    }
    return assign(field, values, where);
  }
  if (array && std::holds_alternative<std::vector<ParameterGroup>*>(field.value)) {
    std::vector<ParameterGroup> groups;
    for (const toml::node& element : *array) {
      if (!element.is_table()) refuse_value(field, "an array that does not hold tables alone", where);
      groups.push_back(group_from(field, *element.as_table(), where));
    }
    return assign(field, groups, where);
  }
  refuse_value(field, array ? "an array" : node.is_table() ? "a table" : "a date or time", where);
}

// A path in a file is meant from the folder that the file is in.
void take_from_folder(const Field& field, const ConfigFile& file) {
  if (field.path != Field::Path::kRead) return;
  std::string& value = *std::get<std::string*>(field.value);
  if (value.empty() || std::ranges::find(field.names, value) != field.names.end()) return;
  value = (std::filesystem::path(file.name).parent_path() / value).lexically_normal().string();
}

// [model] and what it holds: settings, and tables of settings ([model.lora]).
void merge_table(Merge& merge, const ConfigFile& file, const std::string& name, const toml::table& table) {
  for (const auto& [key, node] : table) {
    const std::string where = place(file.name, key.source()), full = fmt::format("{}.{}", name, key.str());
    if (node.is_table() && merge.has_table(full)) {
      merge_table(merge, file, full, *node.as_table());
      continue;
    }
    const Field& field = merge.find(full, where);
    assign_node(field, node, where);
    take_from_folder(field, file);
    merge.came_from(field, where);
  }
}

void merge_file(Merge& merge, const ConfigFile& file) {
  const toml::table root = parse_toml(file.text, file.name, "settings such as [train] batch = 32");
  for (const auto& [section_key, section_node] : root) {
    const std::string section(section_key.str());
    const std::string section_place = place(file.name, section_key.source());
    const toml::table* table = section_node.as_table();
    if (!table) {
      if (merge.has_section(section)) {
        throw_error("{}: {} is a value; expected a section, [{}]", section_place, section, section);
      }
      refuse_name(section, section_place);
    }
    merge_table(merge, file, section, *table);
    if (!merge.has_section(section)) refuse_name(section, section_place);
  }
}

// From the environment and the command line. Groups are written as in a file.
void assign_given(const Field& field, const std::string& text, const std::string& where) {
  if (!std::holds_alternative<std::vector<ParameterGroup>*>(field.value))
    return assign_text(field, text, where);
  check_toml_depth(text, where, "groups such as [{match = \"*.bias\", lr_scale = 0.1}]");
  toml::table root;
  try {
    root = toml::parse("groups = " + text);
  } catch (const toml::parse_error& error) {
    refuse_value(field, fmt::format("{}, which is not TOML ({})", toml_quoted(text), error.description()),
                 where);
  }
  if (root.size() != 1) refuse_value(field, toml_quoted(text), where);
  assign_node(field, *root.get("groups"), where);
}

void merge_environment(Merge& merge, std::span<const std::string> environment) {
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    if (!entry.starts_with(kPrefix) || equals == std::string::npos) continue;
    std::string name = entry.substr(kPrefix.size(), equals - kPrefix.size());
    if (name.find("__") == std::string::npos) continue;
    for (size_t at = name.find("__"); at != std::string::npos; at = name.find("__", at))
      name.replace(at, 2, ".");
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    const std::string where = "environment " + entry.substr(0, equals);
    const Field& field = merge.find(name, where);
    assign_given(field, entry.substr(equals + 1), where);
    merge.came_from(field, where);
  }
}

void merge_arguments(Merge& merge, std::span<const std::string> arguments) {
  static const std::string kWhere = "command line";
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool dashed = arguments[i].starts_with("--");
    const std::string argument = arguments[i].substr(dashed ? 2 : 0);
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const Field& field = merge.find(name, kWhere);
    if (equals != std::string::npos) {
      assign_given(field, argument.substr(equals + 1), kWhere);
    } else if (dashed && i + 1 < arguments.size()) {
      assign_given(field, arguments[++i], kWhere);
    } else {
      refuse_value(field, "without a value", kWhere);
    }
    merge.came_from(field, kWhere);
  }
}

void merge_command_line(Merge& merge, std::span<const std::string> arguments) {
  try {
    merge_arguments(merge, arguments);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace

ConfigFile read_config_file(const std::string& path) {
  // A configuration is typed by hand; anything larger is some other file given by mistake.
  constexpr size_t kMostBytes = size_t{1} << 20;
  return {path, read_input_file(path, kMostBytes, "a config file, in TOML")};
}

std::vector<std::string> process_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry && *entry; ++entry) entries.emplace_back(*entry);
  return entries;
}

bool ResolvedConfig::is_default(std::string_view name) const {
  const auto found = origins.find(name);
  TRIREME_CHECK(found != origins.end());
  return found->second == kDefault || found->second == family_default(config.model.family);
}

ResolvedConfig resolve_config(const ConfigSources& sources, const ModelRecord* own) {
  ResolvedConfig resolved;
  Merge merge(resolved, own);
  if (sources.file) merge_file(merge, *sources.file);
  merge_environment(merge, sources.environment);
  merge_command_line(merge, sources.command_line);
  const std::string& family = resolved.config.model.family;
  const ModelRecord model = own && own->family == family ? *own : find_model(resolved.config.model);
  merge.take_defaults(model);
  validate(resolved.config, model);
  return resolved;
}

bool is_config_argument(std::string_view argument) {
  const bool dashed = argument.starts_with("--");
  if (dashed) argument.remove_prefix(2);
  const size_t equals = argument.find('=');
  const std::string_view name = argument.substr(0, equals);
  return (dashed || equals != std::string_view::npos) && name.find('.') != std::string_view::npos &&
         name.find('/') == std::string_view::npos;
}

}  // namespace trireme
