// In which order a rank runs the lists of its program. Ranks in step have an order beforehand; a server, and
// ranks at their own pace, decide by the messages that have come (arrivals.h). The order is the one in which
// train/ runs them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trireme/sim/track.h"

namespace trireme::sim {

// What a rank turns to next.
struct AgendaItem {
  enum class Kind {
    kList,     // runs a list
    kBegin,    // begins the messages of a list, and goes on
    kAwait,    // until a message of one of `ranks` is there
    kStepEnd,  // a step is made
    kEnd,
  } kind = Kind::kEnd;
  int list = -1;
  std::vector<int> ranks = {};
};

// The messages that have come to a rank and that it has not taken yet.
class Inbox {
 public:
  virtual ~Inbox() = default;
  virtual bool has_message_of(int rank) = 0;
  virtual void take_message_of(int rank) = 0;
};

class Agenda {
 public:
  virtual ~Agenda() = default;
  virtual AgendaItem next(Inbox& inbox) = 0;
};

// Which steps are timed: the order begins behind step `from`, and what `before` steps take is not counted.
struct Window {
  int64_t from = 0, before = 0, steps = 1;
};

// The steps after which everything repeats itself, behind those in which it does not yet: what is delayed,
// early updates, a pipeline that fills.
Window window_of(const Track& track);
// The same of a step before that has a list of its own, in ascending order of those.
std::vector<Window> early_windows(const Track& track);

// `step`, or what takes its place, and behind it the lists that are due.
class LockstepAgenda final : public Agenda {
 public:
  // `idle` says of a step (counted from 1) that the rank does not make it.
  using Idle = std::function<bool(int64_t step)>;
  LockstepAgenda(const Track& track, const Window& window, Idle idle = nullptr);
  AgendaItem next(Inbox& inbox) override;

 private:
  const Track& track_;
  int64_t step_;  // made
  const int64_t last_;
  const Idle idle_;
  size_t place_ = 0;  // among the items of this step
  std::vector<AgendaItem> items_;
};

}  // namespace trireme::sim
