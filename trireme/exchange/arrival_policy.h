// Which list a rank runs next where messages decide that: of a server, and of ranks that mix weights at their
// own pace. A policy says it, and a driver does what it says: runtime/arrivals.h runs the lists of a Program,
// sim/arrivals.h times the same ones. Both take what has come by the same rules, because there is one policy.
//
//   server   takes gradients as they come, lets them make updates and gives weights back   served_policy.cc
//   stale    d_psgd with a staleness: mixes in the newest weights of each neighbour up to  stale_policy.cc
//            its own step, and waits where those are too old
//   pairs    ad_psgd: one who asks goes on until the answer is there; one who answers does  pair_policy.cc
//            so behind its own steps. Nobody waits
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

// Of one step: the ranks whose messages were taken, in order; −r where rank r was lost. It is all that chance
// decides of such a run.
using Arrivals = std::vector<int>;
using ArrivalOrder = std::map<int64_t, Arrivals>;  // by step, counted from 1

class ListDriver {
 public:
  virtual ~ListDriver() = default;

  // The message of `rank` that was expected, if it has come; then it is taken. Its last number is the news.
  virtual std::optional<float> take(int rank) = 0;
  // The first that comes from any of these. −1: none has yet, or a rank was lost instead (see lose()).
  struct Arrival {
    int rank = -1;
    float news = 0;
  };
  virtual Arrival take_first_of(const std::vector<int>& ranks) = 0;

  // Begin a message of the lists for `arrival from rank` and `asked tell rank`, and go on. False where the
  // rank is lost.
  virtual bool expect(int rank, int64_t slot = 0) = 0;
  virtual void begin_telling(int rank, int64_t slot = 0) = 0;
  virtual bool tell(int rank) = 0;  // and wait until it is through
  virtual void run(When::What what, int64_t slot = 0) = 0;
  // The list `step`: gradients and the update with this number, counted from 0. The learning rate is divided.
  virtual void update(int64_t number, int64_t slot, double divisor = 1) = 0;

  // What is told with messages: an input of segments that make one, or its last number, where it is made
  // already; and what an expected message of a lost rank counts as, which is zeros.
  virtual void set(std::string_view /*input*/, float /*value*/) {}
  virtual void set_news(int /*rank*/, int64_t /*slot*/, float /*news*/) {}
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
  // A rank whose loss is borne. In a replay it is there still, and has to be let go.
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
