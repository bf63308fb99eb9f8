// `trireme reproduce`: what five lecture decks state, beside what Trireme makes of it (reproduce/).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/write_file.h"
#include "trireme/reproduce/page.h"
#include "trireme/reproduce/runner.h"

namespace trireme::cli {
namespace {

constexpr std::array kKinds = {reproduce::Kind::kExact, reproduce::Kind::kSimulated,
                               reproduce::Kind::kMeasured};

struct ReproduceFlags {
  std::vector<std::string> wanted, kinds;
  std::string json, markdown;
  bool list = false, full = false;

  bool takes(reproduce::Kind kind) const {
    return kinds.empty() || std::ranges::find(kinds, name(kind)) != kinds.end();
  }
};

std::string_view name_of(reproduce::Outcome::Verdict verdict) {
  switch (verdict) {
    case reproduce::Outcome::Verdict::kWithin:
      return "within";
    case reproduce::Outcome::Verdict::kOutside:
      return "OUTSIDE";
    case reproduce::Outcome::Verdict::kNotRun:
      return "not run";
  }
  return "";
}

void print_outcome(const reproduce::Outcome& outcome) {
  const reproduce::Entry& entry = *outcome.entry;
  fmt::print("{:<4} {:<9} {:<8} {}\n", entry.id, name(entry.kind), name_of(outcome.verdict), entry.statement);
  for (size_t i = 0; i < outcome.ours.size(); ++i) {
    const reproduce::Figure& figure = entry.figures[i];
    const double ours = outcome.ours[i];
    fmt::print("       {:<46} {:>18} {:>12} {:<9} {}{}\n", figure.name, reproduce::deck_text(figure),
               reproduce::number_text(ours), figure.unit, reproduce::difference_text(figure, ours),
               reproduce::is_within(figure, ours) ? "" : "  OUTSIDE its bound");
  }
  if (!outcome.failure.empty()) fmt::print("     error: {}\n", outcome.failure);
  if (!entry.note.empty()) fmt::print("     note: {}\n", entry.note);
  fmt::print("     $ {}\n", entry.command);
  std::fflush(stdout);
}

nlohmann::ordered_json json_of(const reproduce::Outcome& outcome) {
  const reproduce::Entry& entry = *outcome.entry;
  nlohmann::ordered_json figures = nlohmann::ordered_json::array();
  for (size_t i = 0; i < entry.figures.size(); ++i) {
    const reproduce::Figure& figure = entry.figures[i];
    nlohmann::ordered_json one = {{"name", figure.name}, {"unit", figure.unit}};
    if (!std::isnan(figure.deck)) one["deck"] = figure.deck;
    if (!std::isnan(figure.corrected)) one["corrected"] = figure.corrected;
    if (i < outcome.ours.size()) {
      one["ours"] = outcome.ours[i];
      if (const auto found = reproduce::difference(figure, outcome.ours[i])) one["difference"] = *found;
      one["bound"] = figure.bound;
    }
    figures.push_back(std::move(one));
  }
  nlohmann::ordered_json result = {{"id", entry.id},
                                   {"priority", entry.priority},
                                   {"kind", name(entry.kind)},
                                   {"statement", entry.statement},
                                   {"verdict", name_of(outcome.verdict)},
                                   {"figures", figures},
                                   {"command", entry.command},
                                   {"note", entry.note},
                                   {"seconds", outcome.seconds}};
  if (!outcome.failure.empty()) result["failure"] = outcome.failure;
  return result;
}

void print_summary(const std::vector<reproduce::Outcome>& outcomes) {
  fmt::print("\n");
  for (const reproduce::Kind kind : kKinds) {
    const reproduce::Count count = count_of(outcomes, kind);
    if (count.within + count.outside + count.not_run > 0)
      fmt::print("{:<9} {:>3} within their bounds, {} outside, {} not run\n", name(kind), count.within,
                 count.outside, count.not_run);
  }
}

int run(const ReproduceFlags& flags) {
  std::vector<reproduce::Outcome> outcomes;
  for (const reproduce::Entry* entry : reproduce::chosen(flags.wanted)) {
    if (!flags.takes(entry->kind)) continue;
    outcomes.push_back(flags.list ? reproduce::Outcome{.entry = entry} : reproduce::run(*entry));
    print_outcome(outcomes.back());
  }
  print_summary(outcomes);
  if (!flags.json.empty()) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const reproduce::Outcome& outcome : outcomes) list.push_back(json_of(outcome));
    write_json(flags.json, list);
  }
  if (!flags.markdown.empty()) write_file(flags.markdown, reproduce::page_of(outcomes), "page");
  const bool all_within = std::ranges::none_of(outcomes, [](const reproduce::Outcome& outcome) {
    return outcome.verdict == reproduce::Outcome::Verdict::kOutside;
  });
  return all_within ? kOk : kFailed;
}

}  // namespace

int reproduce(std::span<const std::string> arguments) {
  ReproduceFlags flags;
  CLI::App app(
      "Prints numbers of five lecture decks beside what Trireme counts or simulates. Where a deck is off, "
      "the corrected number follows an arrow. Fails if a number is out of its bound. See docs/decks.md.",
      "trireme reproduce");
  app.add_option("wanted", flags.wanted, "decks (B, N, M, L, H) or entries (B4 N1); default: all");
  app.add_option("--kind", flags.kinds, "only these: exact, simulated, measured; default: all")
      ->check(CLI::IsMember({"exact", "simulated", "measured"}));
  app.add_flag("--list", flags.list, "compute nothing; show what is stated and the commands");
  app.add_option("--json", flags.json, "write the outcomes to this file");
  app.add_option("--markdown", flags.markdown, "write them to this file as docs/decks.md has them");
  app.add_flag("--full", flags.full, "measured entries too: refused, with what to run instead");
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;
  if (flags.full)
    throw_error(
        "--full is not supported: measured entries take hours to days and the data sets of the decks. `trireme "
        "reproduce --list --kind measured` prints the command of each; run those instead");
  return run(flags);
}

}  // namespace trireme::cli
