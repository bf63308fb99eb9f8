// What a lecture states, beside what Trireme makes of it. An entry is plain data: the numbers that the deck
// prints, and a function that computes ours from Steps, Programs, schedules and model records, or with the
// simulator. Nothing of ours is typed in.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::reproduce {

enum class Kind {
  kExact,      // counted, or a closed form
  kSimulated,  // a time, by the simulator
  kMeasured,   // only a run shows it
};
std::string_view name(Kind kind);  // "exact"

inline constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

struct Figure {
  std::string name;
  double deck = kNoNumber;       // as printed; none: the deck has a formula or a picture
  double corrected = kNoNumber;  // what it should say, where the deck is off
  std::string unit = {};
  double bound = 0.005;  // of our relative difference from what is expected; decks print three digits

  double expected() const { return std::isnan(corrected) ? deck : corrected; }
};

struct Entry {
  std::string id;    // the deck's letter and a number: "B1"
  int priority = 1;  // 1: what a lecturer looks for first
  Kind kind = Kind::kExact;
  std::string statement;
  std::string command;  // shows it
  std::vector<Figure> figures = {};
  std::vector<double> (*ours)() = nullptr;  // a number for each figure; null: only `command` shows it
  std::string note = {};                    // where the deck is off, or ours is about something else
};

struct Deck {
  char letter;
  std::string title;
  std::vector<Entry> entries;
};

// All decks, in the order of their letters in the docs.
const std::vector<Deck>& decks();

// One file each.
Deck berkeley();
Deck nus();
Deck mit();
Deck lauzhack();
Deck blakely();

}  // namespace trireme::reproduce
