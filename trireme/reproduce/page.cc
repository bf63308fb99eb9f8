// See page.h.
#include "trireme/reproduce/page.h"

#include <fmt/format.h>

namespace trireme::reproduce {
namespace {

constexpr std::string_view kIntroduction = R"(# The numbers of five lecture decks

`trireme reproduce` computes what five lecture decks on distributed training state, from the Steps, Programs, schedules and model records that Trireme
runs, or with its simulator. `trireme reproduce --markdown docs/decks.md` makes this page. [cli.md](cli.md#reproduce) has the options.

Where a deck is off, the corrected number follows an arrow, and *off by* is our difference from it. *Exact* numbers are counted or are closed forms.
*Simulated* ones are times. *Measured* entries are not run here: each has a command that shows it on a machine.

| kind | within their bounds | outside | not run |
|---|---|---|---|
)";

// A row for each number, or one for an entry without.
std::string rows_of(const Outcome& outcome) {
  const Entry& entry = *outcome.entry;
  std::string text = fmt::format("| {} | {} |", entry.id, entry.statement);
  if (outcome.ours.empty()) return text + fmt::format(" | | | | {}, not run |\n", name(entry.kind));
  for (size_t i = 0; i < outcome.ours.size(); ++i) {
    const Figure& figure = entry.figures[i];
    if (i > 0) text += "| | |";
    const std::string unit = figure.unit.empty() ? "" : ", " + figure.unit;
    text += fmt::format(" {}{} | {} | {} | {}{} | {} |\n", figure.name, unit, deck_text(figure),
                        number_text(outcome.ours[i]), difference_text(figure, outcome.ours[i]),
                        is_within(figure, outcome.ours[i]) ? "" : ", out of its bound",
                        i == 0 ? name(entry.kind) : "");
  }
  return text;
}

}  // namespace

std::string page_of(std::span<const Outcome> outcomes) {
  std::string text(kIntroduction);
  for (const Kind kind : {Kind::kExact, Kind::kSimulated, Kind::kMeasured}) {
    const Count count = count_of(outcomes, kind);
    text += fmt::format("| {} | {} | {} | {} |\n", name(kind), count.within, count.outside, count.not_run);
  }
  for (const Deck& deck : decks()) {
    std::string rows, commands;
    for (const Outcome& outcome : outcomes) {
      const Entry& entry = *outcome.entry;
      if (entry.id[0] != deck.letter) continue;
      rows += rows_of(outcome);
      commands += fmt::format("- **{}**: `{}`{}{}\n", entry.id, entry.command, entry.note.empty() ? "" : " ",
                              entry.note);
    }
    if (rows.empty()) continue;
    text += fmt::format(
        "\n## {}. {}\n\n| | what is stated | number | deck | ours | off by | |\n|---|---|---|---|---|---|---|\n{}\n"
        "Commands and notes:\n\n{}",
        deck.letter, deck.title, rows, commands);
  }
  return text;
}

}  // namespace trireme::reproduce
