// `trireme inspect collectives`: all algorithms of a collective side by side, from their Steps. Needs no
// model and no ranks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/launch_flags.h"
#include "trireme/comm/collective/choice.h"
#include "trireme/comm/collective/comparison.h"

namespace trireme::cli {

int inspect_collectives(std::span<const std::string> arguments) {
  int ranks = 8, host_count = 1;
  std::string size = "64M", wanted = "all_reduce";
  std::optional<comm::EmulatedLink> link;
  CLI::App app(
      "Prints what each algorithm of a collective sends and how long it should take over a link, as the "
      "Steps that are run say. See docs/collectives.md.",
      "trireme inspect collectives");
  app.add_option("-n,--ranks", ranks)->check(CLI::Range(2, 256))->capture_default_str();
  app.add_option("--collective", wanted)->capture_default_str();
  app.add_option("--hosts", host_count,
                 "hosts of the ranks, which fill one after another; 1: the link is between all ranks")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--bytes", size, "size of the vector, with K, M or G")->capture_default_str();
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
  std::vector<int> hosts(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) hosts[static_cast<size_t>(rank)] = rank * host_count / ranks;
  const comm::EmulatedLink over = link ? *link : comm::parse_emulated_link("office");
  fmt::print("{} of {} bytes by {} ranks, each pair {}over a link as {}, in segments of {}.\n\n",
             name(*collective), sizes[0], ranks,
             host_count > 1 ? fmt::format("of different ones of {} hosts ", host_count) : "", to_text(over),
             size_text(comm::kDefaultSegmentBytes));
  fmt::print(
      "| algorithm | rounds | bytes in all | by the busiest rank | fan-in | on the way, uncut | seconds "
      "|\n|---|---|---|---|---|---|---|\n");
  const comm::Costs costs = host_count > 1 ? comm::costs_between_hosts(over, hosts) : comm::costs_over(over);
  const auto of_vector = [&](size_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(sizes[0]);
  };
  for (const comm::Compared& one :
       comm::compared(*collective, hosts, sizes[0], comm::kDefaultSegmentBytes, costs))
    fmt::print("| `{}` | {} | {:.4g} n | {:.4g} n | {} | {} α + {:.4g} nβ | {:.3g} |\n", name(one.algorithm),
               one.rounds, of_vector(one.total_bytes), of_vector(one.busiest_bytes), one.fan_in,
               one.form.messages, one.form.carried, one.seconds);
  return kOk;
}

}  // namespace trireme::cli
