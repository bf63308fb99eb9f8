// See link_choice.h. Fixed rules are the default because results have to be the same bits in every run:
// algorithms add in different orders, and what a probe finds the fastest changes from run to run.
#include "trireme/cli/link_choice.h"

#include <fmt/format.h>

#include <chrono>

#include "trireme/comm/calibrate.h"

namespace trireme::cli {

std::string use_links(comm::Context& context, const std::string& links) {
  if (links.empty()) return "collectives by fixed rules";
  if (links != "probe") {
    context.set_links(comm::read_links(context, links));
    return fmt::format("collectives by the links in {}", links);
  }
  const auto begin = std::chrono::steady_clock::now();
  context.set_links(comm::measure_links(context, {}));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  return fmt::format(
      "collectives by a probe of the links ({:.0f} ms); other runs may choose otherwise and round otherwise",
      took.count());
}

}  // namespace trireme::cli
