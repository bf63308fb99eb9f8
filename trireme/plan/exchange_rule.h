// What a plan's key `exchange` says, and what it may say: the methods by which replicas agree, with the
// settings of each. What they do stands in exchange/, which looks its settings up here; so that a plan that
// can not be is refused when it is read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// How replicas agree on the gradients of some parameters, or on weights: a method and its settings.
struct ExchangeRule {
  std::string method = "all_reduce";
  std::string pattern = {};  // of names (fits_pattern); "": all matrices and filters
  std::map<std::string, double, std::less<>> numbers = {};
  std::map<std::string, std::string, std::less<>> words = {};

  friend bool operator==(const ExchangeRule&, const ExchangeRule&) = default;
};

// A setting of a method: a number in a range, or one of some words.
struct ExchangeSetting {
  std::string_view name;
  double standard = 0;  // where the plan does not say
  double least = 0, most = 0;
  enum class Kind { kReal, kWhole, kWord } kind = Kind::kReal;
  // kAboveLeast: `least` itself is too small.
  enum class Bounds { kClosed, kAboveLeast } bounds = Bounds::kClosed;
  std::vector<std::string_view> words = {};  // kWord: the first where nothing is said
};

// What a plan may ask for.
struct ExchangeKind {
  std::string_view name;
  // What ranks agree on, and how: single gradients, once a step; or all weights.
  enum class Of {
    kGradients,
    kMeans,          // every `steps` steps: w becomes the mean
    kWeightedMeans,  // likewise, weighed by the targets that each rank has counted since
    kOuterSteps,     // likewise; a step of Nesterov from the last agreement towards the mean
    kLateMeans,      // what `period` steps have changed becomes the mean of it `delay` steps later
    kNeighbours,  // in every step: w becomes the mean of one's own and one's neighbours', and then the step
                  // is made
    kPushes,      // in every step half of w, and half of the weight of it, goes to one other rank
    kPairs,       // w and that of a partner become the mean of both, whenever the two hear of each other
    kClocks,      // servers add up the gradients of a step
    kArrivals,    // servers make an update of each
  } of;
  std::vector<ExchangeSetting> settings;
};
const std::vector<ExchangeKind>& exchange_kinds();
const ExchangeKind* find_exchange_kind(std::string_view name);  // null when there is none
// Every method that is about weights, with its default settings, for listings.
std::vector<ExchangeRule> weight_rules();

// All settings of a method with their values.
struct ExchangeSettings {
  std::map<std::string, double, std::less<>> numbers;
  std::map<std::string, std::string, std::less<>> words;

  bool has(std::string_view number) const { return numbers.contains(number); }
  double real(std::string_view name) const;
  int64_t whole(std::string_view name) const;
  const std::string& word(std::string_view name) const;
};

// Throws Error for a method that does not exist, for settings that it does not have, and for values that are
// out of range.
ExchangeSettings checked_settings(const ExchangeRule& rule);
// Whether it is the sum that is made without any rule.
bool is_dense_sum(const ExchangeRule& rule, const ExchangeSettings& settings);

}  // namespace trireme
