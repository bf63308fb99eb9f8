// One place binds every setting to its dotted name, its meaning and its limits. Parsing, messages, help,
// the documentation and the TOML that a run leaves behind all walk this list, so none of them can forget
// a field. Internal to run/config*.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trireme/run/options.h"

namespace trireme {

// A count above this is surely a mistake. Refused, but not worth a word in the documentation.
inline constexpr double kSanityMax = 1e9;

struct Limits {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  enum class Max { included, excluded } max_is = Max::included;
};

struct Field {
  std::string name;  // "train.batch"
  std::variant<int64_t*, double*, bool*, std::string*, std::vector<double>*, std::vector<std::string>*,
               std::vector<ParameterGroup>*>
      value;
  std::string doc;
  Limits limits{};                     // numbers
  std::vector<std::string> choices{};  // strings; empty: any
  std::string word{};                  // that an integer may be given as, besides its limits
  int64_t word_means = 0;
  std::string zero_means{};  // what 0, "" or [] stands for; empty: nothing special
  // Strings that name a file or folder. kRead: one that is read; in a config file it is meant from that
  // file's folder, unless it is one of `names`.
  enum class Path { kNone, kRead } path = Path::kNone;
  std::vector<std::string> names{};

  // For the list of fields: the same with one of the members above.
  Field one_of(std::vector<std::string> words) && {
    choices = std::move(words);
    return std::move(*this);
  }
  Field or_word(std::string text, int64_t meaning) && {
    word = std::move(text);
    word_means = meaning;
    return std::move(*this);
  }
  bool is_word(int64_t integer) const { return !word.empty() && integer == word_means; }
  Field automatic(std::string meaning) && {
    zero_means = std::move(meaning);
    return std::move(*this);
  }
  Field read(std::vector<std::string> other_names = {}) && {
    path = Path::kRead;
    names = std::move(other_names);
    return std::move(*this);
  }

  std::string section() const { return name.substr(0, name.find('.')); }
  std::string key() const { return name.substr(name.find('.') + 1); }
};

// All fields, bound to `config`, section by section.
std::vector<Field> config_fields(Config& config);

struct Section {
  std::string name;
  std::string doc;
};
const std::vector<Section>& config_sections();

// What may be assigned: "an integer, at least 1", "one of f32, bf16, f16", …
std::string expectation(const Field& field);
// The value as TOML writes it.
std::string value_text(const Field& field);

// Assign to the field, or throw an Error that opens with `where`. Numbers are checked against the limits,
// strings against the choices; all must be finite, or valid UTF-8. One number or string serves as a list of
// one.
void assign(const Field& field, int64_t value, std::string_view where);
void assign(const Field& field, double value, std::string_view where);
void assign(const Field& field, bool value, std::string_view where);
void assign(const Field& field, const std::string& value, std::string_view where);
void assign(const Field& field, const std::vector<double>& values, std::string_view where);
void assign(const Field& field, const std::vector<std::string>& values, std::string_view where);
void assign(const Field& field, const std::vector<ParameterGroup>& groups, std::string_view where);
// From text without a type: the environment and the command line. Lists are written 0.5,0.25 or [0.5, 0.25];
// strings of a list may be quoted. Groups are TOML, which config.cc reads.
void assign_text(const Field& field, const std::string& text, std::string_view where);

// "found X, expected Y", as every refusal of a value says it.
[[noreturn]] void refuse_value(const Field& field, std::string_view found, std::string_view where);
// "unknown setting X, did you mean Y?"
[[noreturn]] void refuse_name(const std::string& name, std::string_view where);

// "…" with TOML's escapes.
std::string toml_quoted(std::string_view text);

}  // namespace trireme
