// What a plan says of settings that a config has too, and the graphs by which it is checked.
#pragma once

#include "trireme/plan/plan.h"
#include "trireme/run/config.h"

namespace trireme {

// Takes accumulate, precision and batch_norm from the plan into the settings, and makes the batch that its
// ranks share. The plan beats defaults; a setting that was given otherwise and differs is an Error with both
// and where they come from.
void apply_plan(const Plan& plan, ResolvedConfig& config);

// The plan with so many ranks. Throws Error if its mesh has another axis than `data`, because only along that
// does every rank do the same.
Plan with_ranks(const Plan& plan, int ranks);

// What is allowed, but seldom meant: a line for people. "" where there is nothing to say.
std::string plan_warning(const Plan& plan, int64_t microbatches);

}  // namespace trireme
