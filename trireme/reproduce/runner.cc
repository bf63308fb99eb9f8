// See runner.h.
#include "trireme/reproduce/runner.h"

#include <algorithm>
#include <cctype>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme::reproduce {
namespace {

// Below it a difference is the rounding of our own sums.
constexpr double kRounding = 1e-9;

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

}  // namespace

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::kExact:
      return "exact";
    case Kind::kSimulated:
      return "simulated";
    case Kind::kMeasured:
      return "measured";
  }
  return "";
}

const std::vector<Deck>& decks() {
  static const std::vector<Deck> all = {berkeley(), nus(), mit(), lauzhack(), blakely()};
  return all;
}

std::vector<const Entry*> chosen(std::span<const std::string> wanted) {
  std::vector<std::string> names, left;
  for (const std::string& word : wanted) left.push_back(upper(word));
  std::vector<std::string> used;
  const auto is_wanted = [&](const std::string& name) {
    names.push_back(name);
    const bool found = std::ranges::find(left, name) != left.end();
    if (found) used.push_back(name);
    return found;
  };
  std::vector<const Entry*> result;
  for (const Deck& deck : decks()) {
    const bool whole = is_wanted(std::string(1, deck.letter));
    for (const Entry& entry : deck.entries) {
      const bool named = is_wanted(entry.id);
      if (whole || named || wanted.empty()) result.push_back(&entry);
    }
  }
  for (const std::string& word : left) {
    if (std::ranges::find(used, word) != used.end()) continue;
    const std::string guess = nearest(word, names);
    throw_error("there is no deck and no entry '{}'{}; `trireme reproduce --list` shows all", word,
                guess.empty() ? "" : fmt::format(" (did you mean '{}'?)", guess));
  }
  return result;
}

Outcome run(const Entry& entry) {
  Outcome outcome{.entry = &entry};
  if (!entry.ours) return outcome;
  const Clock::time_point begin = Clock::now();
  try {
    outcome.ours = entry.ours();
    TRIREME_CHECK(outcome.ours.size() == entry.figures.size());
    outcome.verdict = Outcome::Verdict::kWithin;
    for (size_t i = 0; i < outcome.ours.size(); ++i) {
      if (!is_within(entry.figures[i], outcome.ours[i])) outcome.verdict = Outcome::Verdict::kOutside;
    }
  } catch (const Error& error) {
    outcome.verdict = Outcome::Verdict::kOutside;
    outcome.failure = error.what();
  }
  outcome.seconds = seconds_since(begin);
  return outcome;
}

std::optional<double> difference(const Figure& figure, double ours) {
  const double expected = figure.expected();
  if (std::isnan(expected)) return {};
  if (expected == 0) return ours;
  const double found = ours / expected - 1;
  return std::abs(found) < kRounding ? 0 : found;
}

bool is_within(const Figure& figure, double ours) {
  const std::optional<double> found = difference(figure, ours);
  return std::isfinite(ours) && (!found || std::abs(*found) <= figure.bound);
}

Count count_of(std::span<const Outcome> outcomes, Kind kind) {
  Count count;
  for (const Outcome& outcome : outcomes) {
    if (outcome.entry->kind != kind) continue;
    count.within += outcome.verdict == Outcome::Verdict::kWithin;
    count.outside += outcome.verdict == Outcome::Verdict::kOutside;
    count.not_run += outcome.verdict == Outcome::Verdict::kNotRun;
  }
  return count;
}

std::string number_text(double number) {
  if (std::isnan(number)) return "";
  if (number == std::floor(number) && std::abs(number) < 1e15)
    return fmt::format("{}", static_cast<int64_t>(number));
  return fmt::format("{:.4g}", number);
}

std::string deck_text(const Figure& figure) {
  const std::string printed = number_text(figure.deck);
  return std::isnan(figure.corrected) ? printed
                                      : fmt::format("{} → {}", printed, number_text(figure.corrected));
}

std::string difference_text(const Figure& figure, double ours) {
  const std::optional<double> found = difference(figure, ours);
  if (!found) return "";
  return *found == 0 ? "=" : fmt::format("{:+.2g} %", 100 * *found);
}

}  // namespace trireme::reproduce
