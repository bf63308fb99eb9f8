// The forms in which people meet the settings: the table of --print-config, the TOML that a run leaves in
// its folder, --help, and the page in docs/. All walk the one list of fields.
#include <algorithm>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/models/model.h"
#include "trireme/run/config.h"
#include "trireme/run/config_fields.h"

namespace trireme {
namespace {

// "features per …; 0 is automatic: 4 * model.hidden"
std::string full_doc(const Field& field) {
  if (field.zero_means.empty()) return field.doc;
  const bool list = std::holds_alternative<std::vector<double>*>(field.value) ||
                    std::holds_alternative<std::vector<std::string>*>(field.value) ||
                    std::holds_alternative<std::vector<ParameterGroup>*>(field.value);
  const char* nothing = std::holds_alternative<std::string*>(field.value) ? "\"\"" : list ? "[]" : "0";
  return fmt::format("{}; {} is automatic: {}", field.doc, nothing, field.zero_means);
}

std::string documented_expectation(Field field) {
  if (field.limits.max == kSanityMax) field.limits.max = Limits{}.max;
  return expectation(field);
}

// As one would type it on a command line, where a string needs no quotes.
std::string argument_text(const Field& field) {
  auto* text = std::get_if<std::string*>(&field.value);
  return fmt::format("--{}={}", field.name, text ? **text : value_text(field));
}

// A path of something that is read, from the root: the file may be read from any folder.
void make_whole(const Field& field) {
  if (field.path != Field::Path::kRead) return;
  std::string& value = *std::get<std::string*>(field.value);
  if (!value.empty() && std::ranges::find(field.names, value) == field.names.end())
    value = std::filesystem::absolute(value).lexically_normal().string();
}

// Fields of one section, in order.
template <typename Visit>
void each_of(const std::vector<Field>& fields, const Section& section, Visit&& visit) {
  for (const Field& field : fields) {
    if (field.section() == section.name) visit(field);
  }
}

// "model.layers = 20, optim.lr = 0.001"; empty where a family has the defaults of all.
std::string own_defaults(const ModelRecord& model) {
  std::string text;
  for (const auto& [name, value] : model.defaults)
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, value);
  return text;
}

}  // namespace

std::string config_table(const ResolvedConfig& resolved) {
  Config config = resolved.config;
  const std::vector<Field> fields = config_fields(config);
  size_t name_width = 0, value_width = 0;
  for (const Field& field : fields) {
    name_width = std::max(name_width, field.name.size());
    value_width = std::max(value_width, value_text(field).size());
  }
  value_width =
      std::min<size_t>(value_width, 40);  // one long path should not push every origin off the screen
  std::string text;
  for (const Field& field : fields) {
    text += fmt::format("{:<{}}  {:<{}}  {}\n", field.name, name_width, value_text(field), value_width,
                        resolved.origins.at(field.name));
  }
  return text;
}

std::string config_toml(const Config& original) {
  Config config = original;
  const std::vector<Field> fields = config_fields(config);
  std::string text;
  for (const Section& section : config_sections()) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section.name);
    each_of(fields, section, [&](const Field& field) {
      make_whole(field);
      text += fmt::format("{} = {}\n", field.key(), value_text(field));
    });
  }
  return text;
}

std::string config_template(const ResolvedConfig& resolved) {
  Config config = resolved.config;
  const std::vector<Field> fields = config_fields(config);
  std::string text =
      "# Settings for trireme train, which takes this file as its argument. Those that begin with # have their\n"
      "# default; remove the # to change one.\n";
  for (const Section& section : config_sections()) {
    text += fmt::format("\n# {}\n[{}]\n", section.doc, section.name);
    each_of(fields, section, [&](const Field& field) {
      text += fmt::format("\n# {}\n", full_doc(field));
      if (!field.choices.empty()) text += fmt::format("# ({})\n", expectation(field));
      const bool is_default = resolved.is_default(field.name);
      if (!is_default) make_whole(field);
      text += fmt::format("{}{} = {}\n", is_default ? "#" : "", field.key(), value_text(field));
    });
  }
  return text;
}

std::string config_help() {
  Config defaults;
  const std::vector<Field> fields = config_fields(defaults);
  std::string text =
      "Settings (command line over environment, TRIREME_SECTION__KEY, over file over default):\n";
  for (const Section& section : config_sections()) {
    text += fmt::format("\n{}\n", section.doc);
    each_of(fields, section, [&](const Field& field) {
      text += fmt::format("  {:<42} {}\n", argument_text(field), full_doc(field));
      if (!field.choices.empty()) text += fmt::format("  {:<42} {}\n", "", expectation(field));
    });
  }
  text += "\nDefaults of families, where they differ\n";
  for (const std::string& family : model_families()) {
    const std::string own = own_defaults(find_model(family));
    if (!own.empty()) text += fmt::format("  {:<12} {}\n", family, own);
  }
  return text;
}

std::string config_markdown() {
  Config defaults;
  const std::vector<Field> fields = config_fields(defaults);
  std::string text =
      "# Settings\n\n"
      "Settings come from four places. Each one overrides those below it.\n\n"
      "| place | example |\n|---|---|\n"
      "| command line | `--train.batch=32` |\n"
      "| environment | `TRIREME_TRAIN__BATCH=32` |\n"
      "| config file (TOML) | `batch = 32` in the section `[train]` |\n"
      "| default | the tables below |\n\n"
      "`trireme train --print-config` shows each value and where it comes from. Trireme refuses unknown names,\n"
      "wrong types and values outside their limits. Relative paths in a config file start from the folder of\n"
      "that file, all others from the current folder.\n\n"
      "`trireme/run/config_fields.cc` generates this page; a test compares the two.\n";
  for (const Section& section : config_sections()) {
    text += fmt::format("\n## {}\n\n{}\n\n| setting | default | meaning | value |\n|---|---|---|---|\n",
                        section.name, section.doc);
    each_of(fields, section, [&](const Field& field) {
      text += fmt::format("| `{}` | `{}` | {} | {} |\n", field.name, value_text(field), full_doc(field),
                          documented_expectation(field));
    });
  }
  text +=
      "\n## Defaults of families\n\n"
      "Some families have their own defaults. `--print-config` shows them as `default of resnet`. The rates are\n"
      "for `optim.kind = adamw`.\n\n"
      "| family | defaults |\n|---|---|\n";
  for (const std::string& family : model_families()) {
    const std::string own = own_defaults(find_model(family));
    if (!own.empty()) text += fmt::format("| `{}` | {} |\n", family, own);
  }
  return text;
}

}  // namespace trireme
