// Every exact entry is within its bound, the list is well formed, and what is outside is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/error_of.h"
#include "trireme/base/error.h"
#include "trireme/reproduce/page.h"
#include "trireme/reproduce/runner.h"

namespace trireme::reproduce {
namespace {

using Words = std::vector<std::string>;
using Verdict = Outcome::Verdict;

std::vector<std::string> ids_of(const Words& wanted) {
  std::vector<std::string> ids;
  for (const Entry* entry : chosen(wanted)) ids.push_back(entry->id);
  return ids;
}

TEST(Reproduce, ExactEntriesAreWithinTheirBounds) {
  int ran = 0;
  for (const Entry* entry : chosen({})) {
    if (entry->kind != Kind::kExact) continue;
    const Outcome outcome = run(*entry);
    ran += outcome.verdict != Verdict::kNotRun;
    EXPECT_NE(outcome.verdict, Verdict::kOutside) << entry->id << " " << outcome.failure;
    for (size_t i = 0; i < outcome.ours.size(); ++i)
      EXPECT_TRUE(is_within(entry->figures[i], outcome.ours[i]))
          << entry->id << ", " << entry->figures[i].name << ": " << outcome.ours[i] << " for "
          << entry->figures[i].expected();
  }
  EXPECT_GE(ran, 40);
}

TEST(Reproduce, EntriesAreWellFormed) {
  std::set<std::string> ids;
  for (const Deck& deck : decks()) {
    for (const Entry& entry : deck.entries) {
      EXPECT_TRUE(ids.insert(entry.id).second) << entry.id;
      EXPECT_EQ(entry.id[0], deck.letter);
      EXPECT_FALSE(entry.statement.empty() || entry.command.empty()) << entry.id;
      EXPECT_EQ(entry.ours != nullptr, !entry.figures.empty()) << entry.id;
      EXPECT_TRUE(entry.kind != Kind::kMeasured || !entry.ours) << entry.id;
      for (const Figure& figure : entry.figures) {
        EXPECT_LE(figure.bound, 0.2) << entry.id << " " << figure.name;
        if (!std::isnan(figure.corrected)) {
          EXPECT_FALSE(entry.note.empty()) << entry.id << " says that the deck is off, and not why";
        }
      }
    }
  }
}

TEST(Reproduce, ChoosesDecksAndIds) {
  EXPECT_EQ(ids_of({"b4", "N1"}), (Words{"B4", "N1"}));
  EXPECT_EQ(ids_of({"N1", "B4", "B4"}), (Words{"B4", "N1"}));
  EXPECT_THAT(ids_of({"H"}), testing::Contains("H5"));
  EXPECT_THAT(ids_of({"H"}), testing::Not(testing::Contains("B1")));
  EXPECT_THAT(error_of([] { chosen(Words{"B44"}); }), testing::HasSubstr("'B44'"));
}

TEST(Reproduce, WhatIsOutsideIsFound) {
  Entry entry{.id = "X1",
              .statement = "two",
              .command = "true",
              .figures = {{"two", 2}, {.name = "three", .deck = 2, .corrected = 3}},
              .ours =
                  [] {
                    return std::vector<double>{2, 3.01};
                  },
              .note = "It is three."};
  EXPECT_EQ(run(entry).verdict, Verdict::kWithin);
  entry.figures[1].bound = 0.001;
  EXPECT_EQ(run(entry).verdict, Verdict::kOutside);
  entry.ours = []() -> std::vector<double> { throw Error("it broke"); };
  const Outcome broken = run(entry);
  EXPECT_EQ(broken.verdict, Verdict::kOutside);
  EXPECT_EQ(broken.failure, "it broke");
  entry.ours = nullptr;
  EXPECT_EQ(run(entry).verdict, Verdict::kNotRun);
  EXPECT_FALSE(is_within({.name = "x", .deck = 1}, kNoNumber));
  EXPECT_TRUE(is_within({.name = "a plot"}, 7));
}

TEST(Reproduce, ThePageShowsCorrections) {
  const std::vector<Outcome> outcomes = {run(*chosen(Words{"N1"})[0])};
  const std::string page = page_of(outcomes);
  EXPECT_THAT(page,
              testing::HasSubstr(
                  "| N1 | vectors sent in all by N = 8 workers | server, 2N | 16 → 14 | 14 | = | exact |"));
  EXPECT_THAT(page, testing::HasSubstr("| exact | 1 | 0 | 0 |"));
  EXPECT_THAT(page, testing::Not(testing::HasSubstr("## B.")));
}

}  // namespace
}  // namespace trireme::reproduce
