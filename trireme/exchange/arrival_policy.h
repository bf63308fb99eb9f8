// Servers, and ranks that mix weights at their own pace, run whichever list the next message calls for. A
// policy decides which one, and a driver carries it out: runtime/arrivals.h runs the lists of a Program,
// sim/arrivals.h times them. Both follow the same policy, so the simulator takes messages by the same rules.
//
//   server   takes gradients as they come, lets them make updates and gives weights back   served_policy.cc
//   stale    d_psgd with a staleness: mixes in the newest weights of each neighbour up to  stale_policy.cc
//            its own step, and waits if those are too old
//   pairs    ad_psgd: a rank that asks continues until the answer arrives; the other rank  pair_policy.cc
//            answers between its own steps. Nobody waits
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "trireme/plan/agreement.h"
#include "trireme/schedule/action_list.h"

namespace trireme {

// The ranks whose messages one step took, in order; −r if rank r was lost. Nothing else in such a run depends
// on chance.
using Arrivals = std::vector<int>;
using ArrivalOrder = std::map<int64_t, Arrivals>;  // by step, counted from 1

class ListDriver {
 public:
  virtual ~ListDriver() = default;

  // Takes the expected message of `rank`, if it has arrived, and returns its last number, the status.
  virtual std::optional<float> take(int rank) = 0;
  // The first message from any of these ranks. −1: none has arrived yet, or a rank was lost (see lose()).
  struct Arrival {
    int rank = -1;
    float status = 0;
  };
  virtual Arrival take_first_of(const std::vector<int>& ranks) = 0;

  // Start a message of the lists for `arrival from rank` and `asked tell rank` without waiting. False if the
  // rank is lost.
  virtual bool expect(int rank, int64_t slot = 0) = 0;
  virtual void begin_telling(int rank, int64_t slot = 0) = 0;
  virtual bool tell(int rank) = 0;  // and waits until it was sent
  virtual void run(When::What what, int64_t slot = 0) = 0;
  // The list `step`: gradients and the update with this number, counted from 0. The learning rate is divided.
  virtual void update(int64_t number, int64_t slot, double divisor = 1) = 0;

  // Set what a message carries besides data: an input of the segments that make it, or the last number of one
  // that is made already. clear() replaces the expected message of a lost rank by zeros.
  virtual void set(std::string_view /*input*/, float /*value*/) {}
  virtual void set_status(int /*rank*/, int64_t /*slot*/, float /*status*/) {}
  virtual void clear(int /*rank*/, int64_t /*slot*/) {}
  // The largest of each number that any of several servers has.
  virtual void agree_on_largest(std::vector<int64_t>& /*numbers*/) {}
  // How many updates, or steps, what was taken is behind.
  virtual void note_staleness(int64_t /*steps*/) {}
};

class ArrivalPolicy {
 public:
  enum class Why { kThrough, kStopped };

  virtual ~ArrivalPolicy() = default;
  virtual void begin() = 0;  // before the first step
  // A step, counted from 0: what is done first, and then what has come, until that says that the step is
  // through.
  virtual void start(int64_t /*step*/) {}
  virtual bool hear(int64_t step) = 0;
  // Behind the last step, which may be another one on each rank: until nobody sends anything any more.
  virtual void end(Why why) = 0;
  virtual bool is_replayed_at_end() const { return false; }  // or what is taken then changes no bit
  // The run continues without this rank. In a replay the rank still exists and has to be dismissed.
  enum class Lost { kGone, kReplayed };
  virtual void lose(int /*rank*/, Lost /*how*/) {}

  bool is_asked_to_stop() const { return asked_; }  // by another rank

 protected:
  explicit ArrivalPolicy(ListDriver& driver) : driver_(driver) {}

  ListDriver& driver_;
  bool asked_ = false;
};

// A rank of a plan whose first steps are done, of so many.
struct PolicyPlace {
  const Agreement& agreement;
  int ranks, rank;
  int64_t first = 0, steps = INT64_MAX;
};

std::unique_ptr<ArrivalPolicy> served_policy(const PolicyPlace& place, ListDriver& driver);
std::unique_ptr<ArrivalPolicy> mixed_policy(const PolicyPlace& place, ListDriver& driver);
std::unique_ptr<ArrivalPolicy> stale_policy(const PolicyPlace& place, ListDriver& driver);
std::unique_ptr<ArrivalPolicy> pair_policy(const PolicyPlace& place, ListDriver& driver);

}  // namespace trireme
