// See job.h.
#include "trireme/placed/job.h"

#include <cmath>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme::placed {
namespace {

void check_message(double kilobytes, const std::string& whose) {
  const double bytes = kilobytes * place::kBytesPerKilobyte;
  if (std::abs(bytes - std::round(bytes)) > 1e-3 || bytes < kNumberBytes)
    throw_error(
        "{} has messages of {} kilobytes, which is {} bytes; to run it must be a whole number from {}, as `trireme "
        "profile --inference` prints it",
        whose, kilobytes, bytes, kNumberBytes);
}

}  // namespace

int Job::rank_of(int64_t request, int op) const {
  const int route = taken[request][op];
  return route == place::kNotTaken ? -1 : 1 + placed.flow[op].routes[route].server;
}

int64_t Job::messages(int from, int to, int op, int input) const {
  const place::Op::Input& along = workflow.ops[op].inputs[input];
  int64_t count = 0;
  for (int64_t r = 0; r < std::ssize(taken); ++r)
    count += rank_of(r, op) == to && (along.is_source ? 0 : rank_of(r, along.index)) == from;
  return count;
}

int64_t Job::items(int rank) const {
  int64_t count = 0;
  for (int64_t r = 0; r < std::ssize(taken); ++r) {
    for (size_t o = 0; o < workflow.ops.size(); ++o) count += rank_of(r, static_cast<int>(o)) == rank;
  }
  return count;
}

std::string Job::name_of_rank(int rank) const {
  std::vector<std::string> ops;
  for (size_t o = 0; o < placed.flow.size(); ++o) {
    for (const place::Route& route : placed.flow[o].routes) {
      if (route.server == rank - 1) ops.push_back(workflow.ops[o].name);
    }
  }
  return fmt::format("{} (rank {}), which runs {}", placed.servers[rank - 1], rank, join(ops, ", "));
}

size_t Job::message_bytes(int op, int input) const {
  const place::Op::Input& from = workflow.ops[op].inputs[input];
  const double kilobytes =
      from.is_source ? workflow.sources[from.index].kilobytes : variant(from.index).kilobytes;
  return static_cast<size_t>(std::llround(kilobytes * place::kBytesPerKilobyte));
}

Job make_job(const place::Workflow& workflow, const place::Placement& placement,
             const place::Requests& requests) {
  Job job{.workflow = workflow,
          .placement = placement,
          .placed = place::flow_of(workflow, placement),
          .arrivals = place::arrival_times(place::request_rate(workflow), requests.variation, requests.count,
                                           requests.seed),
          .taken = {},
          .source_tier = workflow.sources[0].tier};
  job.taken = place::routes_of_requests(job.placed.flow, requests.count);
  for (const place::Source& source : workflow.sources) {
    if (source.tier != job.source_tier)
      throw_error("sources '{}' and '{}' stand in different tiers, which is not run yet; put them into one",
                  workflow.sources[0].name, source.name);
    check_message(source.kilobytes, fmt::format("source '{}'", source.name));
  }
  for (size_t o = 0; o < workflow.ops.size(); ++o)
    check_message(job.variant(static_cast<int>(o)).kilobytes, fmt::format("op '{}'", workflow.ops[o].name));
  return job;
}

comm::EmulatedLinks links_between(const Job& job) {
  return [job](int from, int to) {
    return to == 0 ? comm::EmulatedLink() : job.placed.links[job.tier_of_rank(from)][job.tier_of_rank(to)];
  };
}

}  // namespace trireme::placed
