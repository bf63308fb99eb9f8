// The two ways of gossip_steps.h.
#pragma once

#include "trireme/train/gossip_steps.h"

namespace trireme {

std::unique_ptr<GossipSteps> make_stale_steps(const RankOptions& ranks, const Consistency& how,
                                              Trainer& trainer, int64_t first,
                                              std::optional<GossipSteps::Order> replay);
std::unique_ptr<GossipSteps> make_pair_steps(const RankOptions& ranks, const Consistency& how,
                                             Trainer& trainer, std::optional<GossipSteps::Order> replay);

}  // namespace trireme
