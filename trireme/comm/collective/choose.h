// Which algorithm and segment size to run a call with: those that should take the least time.
#pragma once

#include <span>
#include <vector>

#include "trireme/comm/collective/choice.h"
#include "trireme/comm/collective/link_model.h"

namespace trireme::comm {

// Pure, and equal on all ranks that run the same program with the same model. A call that names its algorithm
// keeps it, and gets a segment size and a prediction. `native_offered`: the transport has its own way; it is
// chosen where that was measured and is faster, and where nothing was measured of it. Where the model has
// times of whole operations of as many ranks, those count; elsewhere the cost model's. Where it has
// preferences for as many ranks, they come before both.
Choice choose(const Call& call, int ranks, std::span<const int> hosts, const LinkModel& model,
              bool native_offered);

// The ways to run a call whose predicted time is at most `within` times the least, that one first. Of those
// that come to the same (with two ranks, a ring is a reduce-scatter-gather) there is one.
std::vector<Choice> contenders(const Call& call, int ranks, std::span<const int> hosts,
                               const LinkModel& model, bool native_offered, double within);

// What a call that names its algorithm should take in messages of so many bytes.
double predict_call(const Call& call, size_t segment_bytes, int ranks, std::span<const int> hosts,
                    const LinkModel& model);

// The same as choose(), to give to a Group.
Chooser make_chooser(LinkModel model, std::vector<int> hosts);

}  // namespace trireme::comm
