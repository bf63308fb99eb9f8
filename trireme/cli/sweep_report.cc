// See sweep_report.h.
#include "trireme/cli/sweep_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace trireme::cli {
namespace {

using parity::Outcome;
using parity::SweepResult;
using Counts = std::array<int64_t, parity::kOutcomes>;

std::string row(const std::string& name, const Counts& counts) {
  std::string line = fmt::format("{:<14}", name);
  int64_t sum = 0;
  for (const int64_t count : counts) {
    line += fmt::format(" {:>9}", count);
    sum += count;
  }
  return line + fmt::format(" {:>9}\n", sum);
}

std::string head() {
  std::string line = fmt::format("{:<14}", "");
  for (int i = 0; i < parity::kOutcomes; ++i)
    line += fmt::format(" {:>9}", parity::name(static_cast<Outcome>(i)));
  return line + fmt::format(" {:>9}\n", "all");
}

std::string indented(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == '\n' ? std::string("\n    ") : std::string(1, c);
  return result;
}

// Reasons of cases that ended so, the most frequent first, each with one example in full.
std::string reasons(const std::vector<SweepResult>& results, Outcome outcome) {
  struct Kind {
    int64_t count = 0;
    std::string example;
  };
  std::map<std::string, Kind> kinds;
  for (const SweepResult& result : results) {
    if (result.outcome != outcome) continue;
    Kind& kind = kinds[parity::reason_kind(result.reason)];
    if (kind.count++ == 0) kind.example = result.reason;
  }
  std::vector<Kind> sorted;
  for (const auto& [text, kind] : kinds) sorted.push_back(kind);
  std::ranges::stable_sort(sorted, std::greater(), &Kind::count);
  std::string text;
  for (const Kind& kind : sorted) text += fmt::format("{:>6}  {}\n", kind.count, indented(kind.example));
  return text;
}

}  // namespace

bool SweepReport::has_failures() const {
  return std::ranges::any_of(results_,
                             [](const SweepResult& result) { return parity::is_failure(result.outcome); });
}

// Cases end in any order; the text is that of their numbers.
void SweepReport::add(const SweepResult& result) {
  const auto place = std::ranges::upper_bound(results_, result.number, {}, &SweepResult::number);
  results_.insert(place, result);
}

std::string SweepReport::text() const {
  std::map<std::string, Counts> by_model, by_precision, by_exchange;
  Counts all{};
  for (const SweepResult& result : results_) {
    const int outcome = static_cast<int>(result.outcome);
    ++by_model[result.drawn.family][outcome];
    ++by_precision[result.drawn.precision][outcome];
    ++by_exchange[result.drawn.exchange.empty() ? "dense" : result.drawn.exchange][outcome];
    ++all[outcome];
  }
  std::string text = head();
  for (const auto& [name, counts] : by_model) text += row(name, counts);
  for (const auto& [name, counts] : by_precision) text += row(name, counts);
  for (const auto& [name, counts] : by_exchange) text += row(name, counts);
  text += row("all", all);
  if (all[static_cast<int>(Outcome::kRefused)] > 0)
    text += "\nrefused, with an example of each reason:\n" + reasons(results_, Outcome::kRefused);
  for (const Outcome outcome : {Outcome::kBug, Outcome::kFailed, Outcome::kAborted, Outcome::kHung}) {
    if (all[static_cast<int>(outcome)] == 0) continue;
    text += fmt::format("\n{}:\n", parity::name(outcome));
    for (const SweepResult& result : results_) {
      if (result.outcome == outcome) text += failure_text(result);
    }
  }
  return text;
}

std::string failure_text(const SweepResult& result) {
  return fmt::format("# {}: {}\n{}\n", parity::name(result.outcome),
                     result.reason.substr(0, result.reason.find('\n')), parity::command_of(result.drawn));
}

}  // namespace trireme::cli
