// The table of methods, and rules held against it, one setting after another.
#include "trireme/plan/exchange_rule.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

using Kind = ExchangeSetting::Kind;
constexpr double kMostSteps = 1e6, kMostInFlight = 64, kMostMomentum = 0.9999, kMostSeed = 0x1p31,
                 kMostRanks = 65536, kMostClients = 1e6;

ExchangeSetting real(std::string_view name, double standard, double least, double most) {
  return {.name = name, .standard = standard, .least = least, .most = most};
}
ExchangeSetting above_zero(std::string_view name, double standard, double most) {
  return {.name = name, .standard = standard, .most = most, .bounds = ExchangeSetting::Bounds::kAboveLeast};
}
ExchangeSetting whole(std::string_view name, double standard, double least, double most) {
  return {.name = name, .standard = standard, .least = least, .most = most, .kind = Kind::kWhole};
}
ExchangeSetting flag(std::string_view name, double standard) {
  return whole(name, standard, 0, 1);
}
ExchangeSetting word(std::string_view name, std::vector<std::string_view> words) {
  return {.name = name, .kind = Kind::kWord, .words = std::move(words)};
}

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

void check_names(const ExchangeRule& rule, const std::vector<ExchangeSetting>& known) {
  std::vector<std::string> names, numbers, words;
  for (const ExchangeSetting& setting : known) {
    names.emplace_back(setting.name);
    (setting.kind == Kind::kWord ? words : numbers).emplace_back(setting.name);
  }
  const auto check = [&](const std::string& name, const std::vector<std::string>& of_kind,
                         const char* other) {
    if (std::ranges::find(names, name) == names.end())
      throw_error("the exchange {} has no setting '{}'; {}", rule.method, name,
                  names.empty() ? "it has none" : suggestion(name, names));
    if (std::ranges::find(of_kind, name) == of_kind.end())
      throw_error("the exchange {}: the setting '{}' is {}", rule.method, name, other);
  };
  for (const auto& [name, number] : rule.numbers) check(name, numbers, "a word, not a number");
  for (const auto& [name, text] : rule.words) check(name, words, "a number, not a word");
}

// Of a delay: sums that are under way are kept until they are due.
void check_in_flight(const ExchangeSettings& settings) {
  if (settings.real("delay") <= kMostInFlight * settings.real("period")) return;
  throw_error(
      "the exchange delayed has delay = {} and period = {}, so that more than {} sums would be under way; a "
      "longer period or a shorter delay expected",
      settings.whole("delay"), settings.whole("period"), kMostInFlight);
}

// Of a round: one of them says how long it is.
void check_round(const ExchangeRule& rule) {
  if (rule.numbers.contains("steps") && rule.numbers.contains("epochs"))
    throw_error("the exchange fedavg has steps = {} and epochs = {}; one of them expected",
                rule.numbers.at("steps"), rule.numbers.at("epochs"));
  if (rule.numbers.contains("clients") && rule.numbers.contains("epochs"))
    throw_error(
        "the exchange fedavg has clients = {} and epochs = {}; epochs are counted over the samples of all "
        "clients. Say how many \"steps\" a client makes in a round",
        rule.numbers.at("clients"), rule.numbers.at("epochs"));
}

}  // namespace

const std::vector<ExchangeKind>& exchange_kinds() {
  using enum ExchangeKind::Of;
  const ExchangeSetting steps = whole("steps", 8, 1, kMostSteps), seed = whole("seed", 0, 0, kMostSeed),
                        servers = whole("servers", 1, 1, kMostRanks), rice = word("code", {"none", "rice"});
  static const std::vector<ExchangeKind> kinds = {
      {"all_reduce", kGradients, {word("wire", {"f32", "bf16", "f16"})}},
      {"top_k", kGradients, {above_zero("ratio", 0.01, 1), flag("feedback", 1), rice}},
      {"dgc",
       kGradients,
       {above_zero("ratio", 0.001, 1), real("momentum", 0.9, 0, kMostMomentum), flag("nesterov", 0),
        flag("masking", 1), real("clip", 0, 0, 1e9), whole("warmup", 0, 0, kMostSteps),
        real("sampled", 0, 0, 1), rice}},
      {"power_sgd", kGradients, {whole("rank", 2, 1, 1024)}},
      {"one_bit", kGradients, {}},
      {"threshold", kGradients, {above_zero("threshold", 1e-3, 1e6)}},
      {"terngrad", kGradients, {real("clip", 2.5, 0, 1e6), seed}},
      {"qsgd",
       kGradients,
       {whole("bits", 4, 2, 8), whole("bucket", 512, 1, 0x1p20), seed, word("code", {"none", "elias"})}},
      {"signum", kGradients, {real("momentum", 0.9, 0, kMostMomentum)}},
      {"atomo", kGradients, {whole("rank", 3, 1, 1024), seed}},
      {"one_bit_adam",
       kGradients,
       {whole("warmup", 100, 1, kMostSteps), above_zero("beta1", 0.9, kMostMomentum),
        above_zero("beta2", 0.999, 0.999999), above_zero("eps", 1e-8, 1)}},
      {"shared_pattern", kGradients, {above_zero("ratio", 0.01, 1), whole("block", 64, 1, 0x1p20)}},
      {"pruned_ring", kGradients, {above_zero("ratio", 0.01, 1)}},
      {"local", kMeans, {steps}},
      {"fedavg",
       kWeightedMeans,
       {steps, whole("epochs", 0, 0, kMostSteps), above_zero("fraction", 1, 1),
        whole("clients", 0, 0, kMostClients), seed}},
      {"diloco",
       kOuterSteps,
       {steps, above_zero("outer_rate", 0.7, 10), real("outer_momentum", 0.9, 0, kMostMomentum)}},
      {"delayed",
       kLateMeans,
       {whole("delay", 1, 0, kMostSteps), whole("period", 1, 1, kMostSteps), flag("correction", 1)}},
      {"d_psgd",
       kNeighbours,
       {word("graph", {"ring", "torus", "exponential"}), whole("staleness", 0, 0, kMostInFlight)}},
      {"sgp", kPushes, {word("graph", {"exponential", "ring"})}},
      {"ad_psgd", kPairs, {word("graph", {"ring", "torus", "exponential"}), seed}},
      {"server", kClocks, {servers}},
      {"async_server", kArrivals, {servers, flag("stale_rate", 0)}},
      {"ssp", kClocks, {servers, whole("staleness", 1, 0, kMostInFlight)}},
  };
  return kinds;
}

const ExchangeKind* find_exchange_kind(std::string_view name) {
  const auto& kinds = exchange_kinds();
  const auto found = std::ranges::find(kinds, name, &ExchangeKind::name);
  return found == kinds.end() ? nullptr : &*found;
}

double ExchangeSettings::real(std::string_view name) const {
  const auto found = numbers.find(name);
  TRIREME_CHECK(found != numbers.end());
  return found->second;
}
int64_t ExchangeSettings::whole(std::string_view name) const {
  return static_cast<int64_t>(real(name));
}
const std::string& ExchangeSettings::word(std::string_view name) const {
  const auto found = words.find(name);
  TRIREME_CHECK(found != words.end());
  return found->second;
}

ExchangeSettings checked_settings(const ExchangeRule& rule) {
  const ExchangeKind* kind = find_exchange_kind(rule.method);
  if (!kind) {
    std::vector<std::string> names;
    for (const ExchangeKind& one : exchange_kinds()) names.emplace_back(one.name);
    throw_error("there is no exchange '{}'; {}", rule.method, suggestion(rule.method, names));
  }
  check_names(rule, kind->settings);
  ExchangeSettings settings;
  for (const ExchangeSetting& setting : kind->settings) {
    if (setting.kind == Kind::kWord)
      settings.words[std::string(setting.name)] = checked_word(rule, setting);
    else
      settings.numbers[std::string(setting.name)] = checked_number(rule, setting);
  }
  if (rule.method == "delayed") check_in_flight(settings);
  if (rule.method == "fedavg") check_round(rule);
  return settings;
}

bool is_dense_sum(const ExchangeRule& rule, const ExchangeSettings& settings) {
  const auto wire = settings.words.find("wire");  // which the plain sum alone has
  return find_exchange_kind(rule.method)->of == ExchangeKind::Of::kGradients &&
         wire != settings.words.end() && wire->second == "f32";
}

std::vector<ExchangeRule> weight_rules() {
  std::vector<ExchangeRule> rules;
  for (const ExchangeKind& kind : exchange_kinds()) {
    if (kind.of != ExchangeKind::Of::kGradients) rules.push_back({.method = std::string(kind.name)});
  }
  return rules;
}

}  // namespace trireme
