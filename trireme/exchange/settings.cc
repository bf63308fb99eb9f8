// Settings are checked one by one.
#include "trireme/exchange/settings.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

using Kind = ExchangeSetting::Kind;

std::string range_text(const ExchangeSetting& setting) {
  const bool above = setting.bounds == ExchangeSetting::Bounds::kAboveLeast;
  return fmt::format("{}a number {} {}, at most {}", setting.kind == Kind::kWhole ? "a whole number; " : "",
                     above ? "above" : "from", setting.least, setting.most);
}

double checked_number(const ExchangeRule& rule, const ExchangeSetting& setting) {
  const auto found = rule.numbers.find(setting.name);
  if (found == rule.numbers.end()) return setting.standard;
  const double number = found->second;
  const bool above = setting.bounds == ExchangeSetting::Bounds::kAboveLeast;
  const bool fits = (above ? number > setting.least : number >= setting.least) && number <= setting.most &&
                    (setting.kind != Kind::kWhole || number == std::floor(number));
  if (!fits)
    throw_error("the exchange {} has {} = {}; {} expected", rule.method, setting.name, number,
                range_text(setting));
  return number;
}

std::string checked_word(const ExchangeRule& rule, const ExchangeSetting& setting) {
  const auto found = rule.words.find(setting.name);
  if (found == rule.words.end()) return std::string(setting.words[0]);
  const std::vector<std::string> known(setting.words.begin(), setting.words.end());
  if (std::ranges::find(known, found->second) == known.end())
    throw_error("the exchange {} has {} = {}; {}", rule.method, setting.name, found->second,
                suggestion(found->second, known));
  return found->second;
}

}  // namespace

ExchangeSettings checked_settings(const ExchangeRule& rule, const std::vector<ExchangeSetting>& known) {
  ExchangeSettings settings;
  std::vector<std::string> names, numbers, words;
  for (const ExchangeSetting& setting : known) {
    names.emplace_back(setting.name);
    (setting.kind == Kind::kWord ? words : numbers).emplace_back(setting.name);
  }
  const auto check_name = [&](const std::string& name, const std::vector<std::string>& of_kind,
                              const char* other) {
    if (std::ranges::find(names, name) == names.end())
      throw_error("the exchange {} has no setting '{}'; {}", rule.method, name,
                  names.empty() ? "it has none" : suggestion(name, names));
    if (std::ranges::find(of_kind, name) == of_kind.end())
      throw_error("the exchange {}: the setting '{}' is {}", rule.method, name, other);
  };
  for (const auto& [name, number] : rule.numbers) check_name(name, numbers, "a word, not a number");
  for (const auto& [name, word] : rule.words) check_name(name, words, "a number, not a word");
  for (const ExchangeSetting& setting : known) {
    if (setting.kind == Kind::kWord)
      settings.words[std::string(setting.name)] = checked_word(rule, setting);
    else
      settings.numbers[std::string(setting.name)] = checked_number(rule, setting);
  }
  return settings;
}

}  // namespace trireme
