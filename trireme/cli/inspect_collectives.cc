// `trireme inspect collectives`: all algorithms of a collective side by side, from their Steps. Needs no
// model and no ranks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/launch_flags.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/choice.h"
#include "trireme/comm/collective/comparison.h"

namespace trireme::cli {
namespace {

// Steps of more ranks are too many to be run one by one: there the closed forms are all that is shown.
constexpr int kMostRanksOfSteps = 256, kMostRanks = 1 << 16;

struct CollectivesQuestion {
  comm::Collective collective = comm::Collective::all_reduce;
  std::vector<int> hosts;  // of each rank
  size_t bytes = 0;
  comm::EmulatedLink link;
  int masters = 0;

  int ranks() const { return static_cast<int>(hosts.size()); }
  bool has_levels() const { return hosts.back() > 0; }
};

std::string form_text(const comm::Formula& form) {
  return fmt::format("{} α + {:.4g} nβ + {:.4g} nγ", form.messages, form.carried, form.reduced);
}
std::string seconds_of_form(const CollectivesQuestion& question, const comm::Formula& form) {
  return fmt::format("{:.4g}", comm::formula_seconds(form, question.bytes, question.link.costs()));
}

// What there are no Steps of: columns that only Steps can fill stay empty.
void print_form(const CollectivesQuestion& question, std::string_view name, const comm::Formula& form) {
  fmt::print("| {} | {} | | {:.4g} n | | {} | {} | |\n", name, form.rounds, form.sent, form_text(form),
             seconds_of_form(question, form));
}

void print_from_steps(const CollectivesQuestion& question) {
  const comm::Costs costs = question.has_levels() ? comm::costs_between_hosts(question.link, question.hosts)
                                                  : comm::costs_over(question.link);
  const auto of_vector = [&](size_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(question.bytes);
  };
  for (const comm::Compared& one :
       comm::compared(question.collective, question.hosts, question.bytes, comm::kDefaultSegmentBytes, costs))
    fmt::print("| `{}` | {} | {:.4g} n | {:.4g} n | {} | {} | {} | {:.3g} |\n", name(one.algorithm),
               one.rounds, of_vector(one.total_bytes), of_vector(one.busiest_bytes), one.fan_in,
               form_text(one.form), question.has_levels() ? "" : seconds_of_form(question, one.form),
               one.seconds);
}

void print_from_forms(const CollectivesQuestion& question) {
  for (const comm::Algorithm algorithm : comm::algorithms_for(question.collective, question.hosts))
    print_form(question, fmt::format("`{}`", name(algorithm)),
               comm::formula(question.collective, algorithm, question.ranks(), question.hosts));
}

void print_collectives(const CollectivesQuestion& question) {
  fmt::print(
      "{} of {} bytes by {} ranks, each pair {}over a link as {}, in segments of {}.\n\n",
      name(question.collective), question.bytes, question.ranks(),
      question.has_levels() ? fmt::format("of different ones of {} hosts ", question.hosts.back() + 1) : "",
      to_text(question.link), size_text(comm::kDefaultSegmentBytes));
  fmt::print(
      "| algorithm | rounds | bytes in all | by the busiest rank | fan-in | on the way, uncut | seconds, "
      "uncut | seconds |\n|---|---|---|---|---|---|---|---|\n");
  if (question.ranks() <= kMostRanksOfSteps)
    print_from_steps(question);
  else
    print_from_forms(question);
  if (question.collective != comm::Collective::all_reduce || question.has_levels()) return;
  if (question.masters > 0)
    print_form(question, fmt::format("{} masters beside the ranks", question.masters),
               comm::masters_formula(question.ranks(), question.masters));
  print_form(question, "no fewer are possible", comm::all_reduce_bound(question.ranks()));
}

}  // namespace

int inspect_collectives(std::span<const std::string> arguments) {
  int ranks = 8, host_count = 1;
  std::string size = "64M", wanted = "all_reduce";
  std::optional<comm::EmulatedLink> link;
  CollectivesQuestion question;
  CLI::App app(
      "Prints what each algorithm of a collective sends and how long it should take over a link, as the "
      "Steps that are run say. See docs/collectives.md.",
      "trireme inspect collectives");
  app.add_option("-n,--ranks", ranks,
                 fmt::format("of more than {}, only closed forms are shown", kMostRanksOfSteps))
      ->check(CLI::Range(2, kMostRanks))
      ->capture_default_str();
  app.add_option("--collective", wanted)->capture_default_str();
  app.add_option("--hosts", host_count,
                 "hosts of the ranks, which fill one after another; 1: the link is between all ranks")
      ->check(CLI::Range(1, kMostRanks))
      ->capture_default_str();
  app.add_option("--bytes", size, "size of the vector, with K, M or G")->capture_default_str();
  app.add_option("--masters", question.masters,
                 "all_reduce: add a row for so many parameter servers that are no ranks")
      ->check(CLI::Range(1, kMostRanks));
  add_link_flag(app, link);
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;

  const std::vector<size_t> sizes = parse_sizes(size);
  if (sizes.size() != 1) throw_error("--bytes is '{}'; one size expected", size);
  const std::optional<comm::Collective> collective = comm::parse_collective(wanted);
  if (!collective)
    throw_error(
        "--collective is '{}'; all_reduce, reduce_scatter, all_gather, broadcast, reduce, gather, scatter, "
        "all_to_all or barrier expected",
        wanted);
  if (host_count > ranks)
    throw_error("--hosts is {} for {} ranks; expected 1 to {}", host_count, ranks, ranks);
  if (question.masters > 0 && (*collective != comm::Collective::all_reduce || host_count > 1))
    throw_error(
        "--masters is for an all_reduce whose links are all alike; without --hosts and --collective expected");
  for (int rank = 0; rank < ranks; ++rank)
    question.hosts.push_back(static_cast<int>(int64_t{rank} * host_count / ranks));
  question.collective = *collective;
  question.bytes = sizes[0];
  question.link = link ? *link : comm::parse_emulated_link("office");
  print_collectives(question);
  return kOk;
}

}  // namespace trireme::cli
