// See runs.h.
#include "trireme/chaos/runs.h"

#include <unistd.h>

#include <algorithm>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/chaos/runner.h"

namespace trireme::chaos {
namespace {

// By which the heap may grow without a leak: results are kept, and memory that was freed is not all given
// back.
constexpr size_t kMayGrow = size_t{16} << 20;

}  // namespace

std::string Runs::leak() const {
  if (at_end.descriptors > after_first_round.descriptors)
    return fmt::format("{} open files after the first round, {} at the end", after_first_round.descriptors,
                       at_end.descriptors);
  if (at_end.resident_bytes > after_first_round.resident_bytes + kMayGrow)
    return fmt::format("{} of memory after the first round, {} at the end",
                       format_bytes(after_first_round.resident_bytes), format_bytes(at_end.resident_bytes));
  return "";
}

bool Runs::all_kept() const {
  return std::ranges::all_of(results, &Result::kept);
}

Runs run_drills(std::span<const ChosenDrill> drills, const RunsOptions& options,
                const std::function<void(const Result&)>& told) {
  Runs runs;
  const Clock::time_point begin = Clock::now();
  const auto goes_on = [&] {
    return options.seconds > 0 ? seconds_since(begin) < options.seconds : runs.rounds < options.times;
  };
  while (goes_on()) {
    for (const ChosenDrill& drill : drills) {
      if (runs.rounds > 0 && !goes_on()) break;
      runs.results.push_back(
          run_drill(drill, options.seed + static_cast<uint64_t>(runs.rounds), options.scene));
      told(runs.results.back());
    }
    if (runs.rounds++ == 0) runs.after_first_round = resources_of(getpid());
  }
  runs.at_end = resources_of(getpid());
  return runs;
}

}  // namespace trireme::chaos
