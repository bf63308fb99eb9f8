// The steps of a rank that mixes weights with some others at its own pace (Agreement::is_in_step): it
// takes what they have sent, and sends what it has, as messages come. What it runs for that are lists of its
// program (exchange/mixed.h); which messages it takes behind which step is all that chance decides, and is
// noted (arrival_order.h), so that a run can be made again with the same bits.
//
//   d_psgd, staleness s   mixes in the newest weights that each neighbour has sent up to its own step, and
//                         waits where those are more than s steps behind (stale_steps.cc)
//   ad_psgd               who asks has one question under way, and goes on until the answer is there; who
//                         answers does so behind its own steps. Nobody waits (pair_steps.cc)
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "trireme/plan/agreement.h"
#include "trireme/train/arrival_order.h"
#include "trireme/train/trainer.h"

namespace trireme {

class GossipSteps {
 public:
  using Order = std::map<int64_t, Arrivals>;  // by step, counted from 1
  // `first` steps are done, on all ranks. `replay`: what this rank took in the run that is made again. The
  // plan has such an exchange. All that is given outlives it.
  static std::unique_ptr<GossipSteps> make(const RankOptions& ranks, Trainer& trainer, int64_t first,
                                           std::optional<Order> replay = {});

  // Before finish(), as after an error, it ends the job: others count on this rank.
  virtual ~GossipSteps();
  GossipSteps(const GossipSteps&) = delete;
  GossipSteps& operator=(const GossipSteps&) = delete;

  // One step. Throws Error when the order that is replayed can not be.
  StepResult step(Batch& batch, int64_t step, double rate);
  // After the last step, which may be another one on each rank: until nobody sends anything any more. Once.
  enum class Why { kThrough, kStopped };
  void finish(Why why);
  bool others_stop() const { return others_stop_; }  // one of them was asked to stop, so that all should

  // The ranks whose messages were taken behind a step, in order; what finish() took stands behind the last
  // one.
  const Arrivals& arrivals(int64_t step) { return arrivals_[step]; }
  Order take_arrivals() { return std::exchange(arrivals_, {}); }  // since this was last asked

 protected:
  GossipSteps(const RankOptions& ranks, const Agreement& how, Trainer& trainer, std::optional<Order> replay);

  // Of a step, counted from 0: the update, and what goes with it.
  virtual StepResult update(int64_t step, double rate) = 0;
  virtual void end(Why why) = 0;

  bool replays() const { return replay_.has_value(); }
  const Arrivals& replayed() const;  // of this step; an Error where there are none
  [[noreturn]] void refuse_replay(int rank, std::string_view reason) const;
  // What was taken behind this step: a message, with its last number; and weights that are so many steps old.
  void note_arrival(int rank, float news);
  void note_staleness(int64_t steps);

  void begin(const When& message, int64_t slot = 0) {
    trainer_.runner().begin(trainer_.program().list(message), slot);
  }
  std::byte* memory(std::string_view state, int64_t slot) const;
  float& news_in(std::string_view state, int64_t slot) const;  // the last number of a message

  const Agreement how_;
  Trainer& trainer_;
  Communicator& communicator_;
  const int ranks_, rank_;

 private:
  const std::optional<Order> replay_;
  Order arrivals_;
  int64_t number_ = 0;  // of this step, counted from 1
  bool others_stop_ = false, finished_ = false;
  int64_t taken_ = 0, stalest_ = 0, stale_sum_ = 0;  // weights of this step
};

// The two ways; who has a plan calls GossipSteps::make().
std::unique_ptr<GossipSteps> make_stale_steps(const RankOptions& ranks, const Agreement& how,
                                              Trainer& trainer, int64_t first,
                                              std::optional<GossipSteps::Order> replay);
std::unique_ptr<GossipSteps> make_pair_steps(const RankOptions& ranks, const Agreement& how, Trainer& trainer,
                                             std::optional<GossipSteps::Order> replay);

}  // namespace trireme
