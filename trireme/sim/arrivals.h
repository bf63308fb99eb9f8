// The order in which a server, and ranks at their own pace, run their lists: their own policies
// (exchange/arrival_policy.h) say it, of simulated arrivals.
#pragma once

#include <memory>
#include <optional>

#include "trireme/plan/plan.h"
#include "trireme/sim/agenda.h"

namespace trireme::sim {

// Whether the rank decides by what has come.
bool goes_by_arrivals(const Track& track);

// Steps that are timed where any rank does.
inline constexpr Window kOwnPaceWindow = {.from = 0, .before = 8, .steps = 32};

// Of one of the ranks of such a plan. The track must outlive it. Throws Error where the plan is not known.
std::unique_ptr<Agenda> own_pace_agenda(const Track& track, const std::optional<Plan>& plan, int rank,
                                        const Window& window);

}  // namespace trireme::sim
