// Computes what entries say of Trireme and holds it to their bounds.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/reproduce/entry.h"

namespace trireme::reproduce {

// Those of the decks and ids that are named ("H", "b4"), all where none is; in the order of the decks.
// Throws Error with the nearest name for what is neither.
std::vector<const Entry*> chosen(std::span<const std::string> wanted);

struct Outcome {
  const Entry* entry = nullptr;
  enum class Verdict { kWithin, kOutside, kNotRun } verdict = Verdict::kNotRun;
  std::vector<double> ours = {};  // a number for each figure, where it ran
  std::string failure = {};       // the Error that it ended with; then it is outside
  double seconds = 0;             // that it took to compute
};
Outcome run(const Entry& entry);

// Ours relative to what is expected, 0.02 for 2 % more; none where the deck has no number.
std::optional<double> difference(const Figure& figure, double ours);
bool is_within(const Figure& figure, double ours);

struct Count {
  int within = 0, outside = 0, not_run = 0;
};
Count count_of(std::span<const Outcome> outcomes, Kind kind);

// Whole numbers with all their digits, others with four that count.
std::string number_text(double number);
// What the deck prints, and after an arrow what it should say.
std::string deck_text(const Figure& figure);
// "+1.2 %", "=" where nothing differs, "" where there is nothing to compare with.
std::string difference_text(const Figure& figure, double ours);

}  // namespace trireme::reproduce
