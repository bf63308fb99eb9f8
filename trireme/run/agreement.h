// What a run is made with, as names and values: all ranks must have the same, and a run that resumes from a
// checkpoint should (resume_check.h). Settings by their names, and besides them "plan", "program" (which
// Trireme), "training data" and "held-out data".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/data/open_data.h"
#include "trireme/plan/plan.h"
#include "trireme/run/config.h"

namespace trireme {

struct Fact {
  std::string name, value;
  std::string origin = {};  // for people; not compared
};
using Facts = std::vector<Fact>;

// Settings that are no facts: they change neither the numbers nor the calls that a rank makes, or what they
// name is compared by its contents. docs/launching.md has the list with reasons.
std::span<const std::string_view> local_settings();

Facts facts_of(const ResolvedConfig& config, const Plan& plan);
Facts facts_of(const OpenedData& data);

// Whether all ranks have the same facts, in the same order. If not, all throw an Error: rank 0's names what
// differs, with the values and the ranks that have them. Collective.
void require_agreement(const Facts& facts, comm::Group& world);

// "rank 2", "ranks 0, 1 and 3".
std::string ranks_text(std::span<const int> ranks);

}  // namespace trireme
