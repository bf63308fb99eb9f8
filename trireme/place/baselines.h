// Other ways to place a workflow, to hold the best one against.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/place/best_placement.h"

namespace trireme::place {

// Choices of variants that are accurate enough, the cheapest first by what each op would cost on its cheapest
// worker. A beam search from the last op back: each op's accuracy must be what the ops after it need. At most
// `width` are kept.
std::vector<Variants> beam_choices(const Workflow& workflow, size_t width);

// Workers for certain variants, op by op: the cheapest free worker that takes the whole rate, else workers by
// their price for each input until the rest is met. Tried with every highest tier of each op; the cheapest
// ten go on. None where workers run out.
std::optional<std::vector<std::vector<int>>> greedy_workers(const Workflow& workflow,
                                                            const Variants& variants);

struct Baseline {
  std::string name;
  std::optional<Placement> placement;
  std::string why_not;  // where there is none
};

// Beam search with greedy workers, the most accurate variants, all in the highest tier, all in the lowest.
std::vector<Baseline> baselines(const Workflow& workflow, double seconds);

}  // namespace trireme::place
