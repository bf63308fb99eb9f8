// See gossip_steps.h: what its two ways have in common.
#include "trireme/train/gossip_steps.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/exchange/mixed.h"

namespace trireme {

std::unique_ptr<GossipSteps> GossipSteps::make(const RankOptions& ranks, Trainer& trainer, int64_t first,
                                               std::optional<Order> replay) {
  const Agreement& how = ranks.plan.agreement;
  TRIREME_CHECK((how.kind() == Agreement::Kind::kMixed && !how.is_in_step()));
  return how.pace() == Agreement::Pace::kOwn
             ? make_pair_steps(ranks, how, trainer, std::move(replay))
             : make_stale_steps(ranks, how, trainer, first, std::move(replay));
}

GossipSteps::GossipSteps(const RankOptions& ranks, const Agreement& how, Trainer& trainer,
                         std::optional<Order> replay)
    : how_(how),
      trainer_(trainer),
      communicator_(*ranks.communicator),
      ranks_(ranks.plan.mesh.ranks()),
      rank_(ranks.rank),
      replay_(std::move(replay)) {}

GossipSteps::~GossipSteps() {
  if (finished_) return;
  try {
    communicator_.give_up(fmt::format("rank {} has left the run before its end; see what it says", rank_));
  } catch (const Error&) {
    // The job has ended already.
  }
}

StepResult GossipSteps::step(Batch& batch, int64_t step, double rate) {
  number_ = step + 1;
  arrivals_[number_].clear();
  taken_ = stalest_ = stale_sum_ = 0;
  trainer_.forward_backward(batch, step);
  StepResult result = update(step, rate);
  result.staleness_mean = static_cast<double>(stale_sum_) / static_cast<double>(std::max<int64_t>(1, taken_));
  result.staleness_max = static_cast<double>(stalest_);
  return result;
}

void GossipSteps::finish(Why why) {
  arrivals_[++number_].clear();
  end(why);
  finished_ = true;
}

const Arrivals& GossipSteps::replayed() const {
  const auto found = replay_->find(number_);
  if (found == replay_->end())
    throw_error("step {} of rank {} is to be replayed, but the log of the run before has no arrivals of it",
                number_, rank_);
  return found->second;
}

void GossipSteps::refuse_replay(int rank, std::string_view reason) const {
  throw_error(
      "behind step {} the run that is replayed took a message of rank {} on rank {}, {}; it is the log of a "
      "run "
      "with another plan",
      number_, rank, rank_, reason);
}

void GossipSteps::note_arrival(int rank, float news) {
  arrivals_[number_].push_back(rank);
  others_stop_ |= news == kRunStops;
}

void GossipSteps::note_staleness(int64_t steps) {
  ++taken_;
  stale_sum_ += steps;
  stalest_ = std::max(stalest_, steps);
}

std::byte* GossipSteps::memory(std::string_view state, int64_t slot) const {
  return trainer_.executor().slot_memory(*trainer_.program().find_state(state), slot);
}

float& GossipSteps::news_in(std::string_view state, int64_t slot) const {
  const int64_t elements = trainer_.program().find_state(state)->type.shape.elements();
  return reinterpret_cast<float*>(memory(state, slot))[elements - 1];
}

}  // namespace trireme
