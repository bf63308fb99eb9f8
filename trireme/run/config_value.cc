// Values of settings: what a field accepts, how it refuses, how it is written. Numbers in text are read by
// from_chars, which knows no locale and takes no spaces, so "1,5" or "12 " never become something else.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/run/config.h"
#include "trireme/run/config_fields.h"

namespace trireme {
namespace {

// Paths and names end up in TOML and JSON, and neither can hold other bytes.
bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t at) {
      return at < text.size() ? static_cast<uint8_t>(text[at]) : uint8_t{0};
    };
    const uint8_t lead = byte(i);
    const int extra = lead < 0x80   ? 0
                      : lead < 0xc2 ? -1
                      : lead < 0xe0 ? 1
                      : lead < 0xf0 ? 2
                      : lead < 0xf5 ? 3
                                    : -1;
    if (extra < 0) return false;
    for (int k = 1; k <= extra; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
    }
    // Overlong forms, surrogates, and beyond U+10FFFF.
    if ((lead == 0xe0 && byte(i + 1) < 0xa0) || (lead == 0xed && byte(i + 1) > 0x9f) ||
        (lead == 0xf0 && byte(i + 1) < 0x90) || (lead == 0xf4 && byte(i + 1) > 0x8f)) {
      return false;
    }
    i += extra + 1;
  }
  return true;
}

bool within(const Limits& limits, double value) {
  const bool below = limits.max_is == Limits::Max::included ? value <= limits.max : value < limits.max;
  return value >= limits.min && below;
}

template <typename T>
bool parse_whole(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

// "0.5,0.25" or, as TOML has it, "[0.5, 0.25]".
bool parse_list(std::string_view text, std::vector<double>& values) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  if (text.empty()) return true;
  for (std::string& part : split(text, ',')) {
    part.erase(0, part.find_first_not_of(' '));
    if (!parse_whole(part, values.emplace_back())) return false;
  }
  return true;
}

// "a,b" or, as TOML has it, '["a", "b"]'. Commas and quotes within are not for the command line.
bool parse_list(std::string_view text, std::vector<std::string>& values) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  if (text.empty()) return true;
  for (std::string part : split(text, ',')) {
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    const bool quoted =
        part.size() >= 2 && (part.front() == '"' || part.front() == '\'') && part.back() == part.front();
    if (quoted) part = part.substr(1, part.size() - 2);
    if (part.empty() || part.find_first_of("\"'\\") != std::string::npos) return false;
    values.push_back(std::move(part));
  }
  return true;
}

std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  // TOML tells floats from integers by the point or the exponent.
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string list_text(const std::vector<double>& values) {
  std::vector<std::string> parts;
  for (const double value : values) parts.push_back(number_text(value));
  return fmt::format("[{}]", join(parts, ", "));
}

std::string list_text(const std::vector<std::string>& values) {
  std::vector<std::string> parts;
  for (const std::string& value : values) parts.push_back(toml_quoted(value));
  return fmt::format("[{}]", join(parts, ", "));
}

std::string group_text(const ParameterGroup& group) {
  std::string text = "{match = " + toml_quoted(group.match);
  if (group.lr_scale != 1) text += ", lr_scale = " + number_text(group.lr_scale);
  if (group.weight_decay) text += ", weight_decay = " + number_text(*group.weight_decay);
  return text + "}";
}

std::string list_text(const std::vector<ParameterGroup>& groups) {
  std::vector<std::string> parts;
  for (const ParameterGroup& group : groups) parts.push_back(group_text(group));
  return fmt::format("[{}]", join(parts, ", "));
}

std::string limits_text(const Limits& limits, bool is_integer) {
  const auto text = [&](double value) {
    return is_integer ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
  };
  std::string result;
  if (std::isfinite(limits.min)) result += ", at least " + text(limits.min);
  if (std::isfinite(limits.max)) {
    result += (limits.max_is == Limits::Max::included ? ", at most " : ", below ") + text(limits.max);
  }
  return result;
}

// The settings of one section, without its name.
std::vector<std::string> keys_of(std::string_view section) {
  Config defaults;
  std::vector<std::string> keys;
  for (const Field& field : config_fields(defaults)) {
    if (field.name.substr(0, field.name.rfind('.')) == section) keys.emplace_back(field.key());
  }
  return keys;
}

}  // namespace

std::string toml_quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      result += fmt::format("\\{}", c);
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string expectation(const Field& field) {
  if (std::holds_alternative<bool*>(field.value)) return "true or false";
  if (std::holds_alternative<int64_t*>(field.value))
    return "an integer" + limits_text(field.limits, true) + (field.word.empty() ? "" : ", or " + field.word);
  if (std::holds_alternative<double*>(field.value)) return "a number" + limits_text(field.limits, false);
  if (std::holds_alternative<std::vector<double>*>(field.value))
    return "a list of numbers" + limits_text(field.limits, false);
  if (std::holds_alternative<std::vector<std::string>*>(field.value)) return "a list of strings";
  if (std::holds_alternative<std::vector<ParameterGroup>*>(field.value))
    return "a list of tables such as {match = \"*.bias\", lr_scale = 0.1, weight_decay = 0.0}";
  if (field.choices.empty()) return "a string";
  return "one of " + join(field.choices, ", ");
}

std::string value_text(const Field& field) {
  if (auto* number = std::get_if<int64_t*>(&field.value))
    return field.is_word(**number) ? toml_quoted(field.word) : fmt::format("{}", **number);
  if (auto* number = std::get_if<double*>(&field.value)) return number_text(**number);
  if (auto* flag = std::get_if<bool*>(&field.value)) return **flag ? "true" : "false";
  if (auto* values = std::get_if<std::vector<double>*>(&field.value)) return list_text(**values);
  if (auto* values = std::get_if<std::vector<std::string>*>(&field.value)) return list_text(**values);
  if (auto* groups = std::get_if<std::vector<ParameterGroup>*>(&field.value)) return list_text(**groups);
  return toml_quoted(*std::get<std::string*>(field.value));
}

void refuse_value(const Field& field, std::string_view found, std::string_view where) {
  throw_error("{}: {} is {}; expected {}", where, field.name, found, expectation(field));
}

void refuse_name(const std::string& name, std::string_view where) {
  // Files that were written before a section had its name of today, those of older runs among them.
  constexpr std::string_view kOldSection = "schedule", kSection = "lr_schedule";
  if (name.substr(0, name.find('.')) == kOldSection) {
    throw_error("{}: {} is called {}{} now (a schedule is the order of a step's actions); rename it", where,
                name, kSection, name.substr(kOldSection.size()));
  }
  std::string hint = "`trireme train --print-config` lists all settings";
  if (const std::string like = setting_like(name); !like.empty()) {
    hint = fmt::format("did you mean {}?", like);
  } else if (const std::string section = name.substr(0, name.rfind('.')); section != name) {
    if (const auto known = keys_of(section); !known.empty())
      hint = fmt::format("{} has {}", section, join(known, ", "));
  }
  throw_error("{}: unknown setting {}; {}", where, name, hint);
}

std::string setting_like(const std::string& name) {
  Config defaults;
  std::vector<std::string> names, keys;
  const bool has_section = name.find('.') != std::string::npos;
  const std::string key = name.substr(name.rfind('.') + 1);
  for (const Field& field : config_fields(defaults)) {
    // The right key in the wrong section is a likelier slip than any misspelling.
    if (field.key() == key) return field.name;
    names.push_back(field.name);
    keys.emplace_back(field.key());
  }
  const std::string guess = nearest(name, has_section ? names : keys);
  if (has_section || guess.empty()) return guess;
  return names[static_cast<size_t>(std::ranges::find(keys, guess) - keys.begin())];
}

void assign(const Field& field, int64_t value, std::string_view where) {
  if (std::holds_alternative<double*>(field.value) ||
      std::holds_alternative<std::vector<double>*>(field.value))
    return assign(field, static_cast<double>(value), where);
  auto* target = std::get_if<int64_t*>(&field.value);
  if (!target || !(within(field.limits, static_cast<double>(value)) || field.is_word(value))) {
    refuse_value(field, fmt::format("the integer {}", value), where);
  }
  **target = value;
}

void assign(const Field& field, double value, std::string_view where) {
  if (std::holds_alternative<std::vector<double>*>(field.value))
    return assign(field, std::vector<double>{value}, where);
  auto* target = std::get_if<double*>(&field.value);
  if (!target || !std::isfinite(value) || !within(field.limits, value)) {
    refuse_value(field, fmt::format("the number {}", number_text(value)), where);
  }
  **target = value;
}

void assign(const Field& field, const std::vector<double>& values, std::string_view where) {
  auto* target = std::get_if<std::vector<double>*>(&field.value);
  const bool fits = std::ranges::all_of(
      values, [&](double value) { return std::isfinite(value) && within(field.limits, value); });
  if (!target || !fits) refuse_value(field, "the list " + list_text(values), where);
  **target = values;
}

void assign(const Field& field, const std::vector<std::string>& values, std::string_view where) {
  auto* target = std::get_if<std::vector<std::string>*>(&field.value);
  if (!target) refuse_value(field, "the list " + list_text(values), where);
  for (const std::string& value : values) {
    if (!is_utf8(value)) throw_error("{}: {} holds a string that is not valid UTF-8", where, field.name);
  }
  **target = values;
}

void assign(const Field& field, const std::vector<ParameterGroup>& groups, std::string_view where) {
  auto* target = std::get_if<std::vector<ParameterGroup>*>(&field.value);
  const auto is_rate = [](double value) { return std::isfinite(value) && value >= 0; };
  for (const ParameterGroup& group : groups) {
    if (!target || group.match.empty() || !is_utf8(group.match) || !is_rate(group.lr_scale) ||
        !is_rate(group.weight_decay.value_or(0)))
      refuse_value(field, is_utf8(group.match) ? group_text(group) : "a table whose match is not valid UTF-8",
                   where);
  }
  if (!target) refuse_value(field, "a list of tables", where);
  **target = groups;
}

void assign(const Field& field, bool value, std::string_view where) {
  auto* target = std::get_if<bool*>(&field.value);
  if (!target) refuse_value(field, value ? "true" : "false", where);
  **target = value;
}

void assign(const Field& field, const std::string& value, std::string_view where) {
  if (std::holds_alternative<std::vector<std::string>*>(field.value))
    return assign(field, std::vector<std::string>{value}, where);
  if (!is_utf8(value)) throw_error("{}: {} is not valid UTF-8", where, field.name);
  if (!field.word.empty() && value == field.word) return assign(field, field.word_means, where);
  auto* target = std::get_if<std::string*>(&field.value);
  if (!target) refuse_value(field, "the string " + toml_quoted(value), where);
  const auto& choices = field.choices;
  if (!choices.empty() && std::find(choices.begin(), choices.end(), value) == choices.end()) {
    const std::string suggestion = nearest(value, choices);
    refuse_value(
        field,
        toml_quoted(value) + (suggestion.empty() ? "" : fmt::format(" (did you mean {}?)", suggestion)),
        where);
  }
  **target = value;
}

void assign_text(const Field& field, const std::string& text, std::string_view where) {
  int64_t integer = 0;
  double number = 0;
  std::vector<double> list;
  std::vector<std::string> texts;
  if (std::holds_alternative<std::string*>(field.value) || (!field.word.empty() && text == field.word)) {
    assign(field, text, where);
  } else if (std::holds_alternative<bool*>(field.value) && (text == "true" || text == "false")) {
    assign(field, text == "true", where);
  } else if (std::holds_alternative<int64_t*>(field.value) && parse_whole(text, integer)) {
    assign(field, integer, where);
  } else if (std::holds_alternative<double*>(field.value) && parse_whole(text, number)) {
    assign(field, number, where);
  } else if (std::holds_alternative<std::vector<double>*>(field.value) && parse_list(text, list)) {
    assign(field, list, where);
  } else if (std::holds_alternative<std::vector<std::string>*>(field.value) && parse_list(text, texts)) {
    assign(field, texts, where);
  } else {
    refuse_value(field, toml_quoted(text), where);
  }
}

}  // namespace trireme
