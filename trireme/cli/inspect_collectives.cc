// `trireme inspect collectives`: all algorithms of an all-reduce side by side, from their Steps. Needs no
// model and no ranks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/inspect_commands.h"
#include "trireme/cli/launch_flags.h"
#include "trireme/cli/size_list.h"
#include "trireme/comm/collective/choice.h"
#include "trireme/comm/collective/comparison.h"

namespace trireme::cli {

int inspect_collectives(std::span<const std::string> arguments) {
  int ranks = 8;
  std::string size = "64M";
  std::optional<comm::EmulatedLink> link;
  CLI::App app(
      "Prints what each all-reduce algorithm sends and how long it should take over a link, as the Steps "
      "that "
      "are run say. See docs/collectives.md.",
      "trireme inspect collectives");
  app.add_option("-n,--ranks", ranks)->check(CLI::Range(2, 256))->capture_default_str();
  app.add_option("--bytes", size, "of the vector, with K, M or G")->capture_default_str();
  add_link_flag(app, link);
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;

  const std::vector<size_t> sizes = parse_sizes(size);
  if (sizes.size() != 1) throw_error("--bytes is '{}'; one size expected", size);
  const comm::EmulatedLink over = link ? *link : comm::parse_emulated_link("office");
  fmt::print("All-reduce of {} bytes by {} ranks, each pair over a link as {}, in segments of {}.\n\n",
             sizes[0], ranks, to_text(over), size_text(comm::kDefaultSegmentBytes));
  fmt::print(
      "| algorithm | rounds | bytes in all | by the busiest rank | fan-in | seconds "
      "|\n|---|---|---|---|---|---|\n");
  for (const comm::Compared& one : comm::compared(comm::Collective::all_reduce, ranks, sizes[0],
                                                  comm::kDefaultSegmentBytes, comm::costs_over(over)))
    fmt::print("| `{}` | {} | {:.4g} n | {:.4g} n | {} | {:.3g} |\n", name(one.algorithm), one.rounds,
               static_cast<double>(one.total_bytes) / static_cast<double>(sizes[0]),
               static_cast<double>(one.busiest_bytes) / static_cast<double>(sizes[0]), one.fan_in,
               one.seconds);
  return kOk;
}

}  // namespace trireme::cli
