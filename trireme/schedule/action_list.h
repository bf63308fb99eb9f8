// A list of actions that are done after one another for one purpose, and when that is. The text form of When
// stands behind each of its makers; program/text.h has that of a list.
#pragma once

#include <optional>

#include "trireme/base/part.h"
#include "trireme/schedule/schedule.h"

namespace trireme {

struct When {
  enum class Kind {
    kStep,
    kEvaluate,
    kFill,     // before the first step of a pipeline that is not empty between steps
    kEvery,    // behind step `first` (counted from 1), and then every `steps`
    kUntil,    // in the place of `step` up to step `steps`, from where another one ends
    kAsked,    // when somebody needs what `what` says
    kArrival,  // takes a message from rank `peer`, and is begun before that has come
  };
  // What a list is asked for.
  enum class What {
    kBegin,   // anchors, after the weights were set
    kMeet,    // one model of all ranks', for a checkpoint or an evaluation
    kPart,    // each rank its own again
    kTell,    // a message to rank `peer`
    kGive,    // of a server: its message of weights anew
    kMix,     // what is in a slot into one's weights
    kOffer,   // of ranks that average in pairs: the message of the one that asks
    kAnswer,  // the message of who answers, and its own step towards the other
    kSettle,  // the same step of the one that asked
    kPrefill,
    kDecode,
  };
  Kind kind = Kind::kStep;
  int64_t steps = 0, first = 0;
  What what = What::kBegin;
  int peer = -1;

  static When step() { return {Kind::kStep}; }                                              // step
  static When evaluate() { return {Kind::kEvaluate}; }                                      // evaluate
  static When fill() { return {Kind::kFill}; }                                              // fill
  static When until(int64_t step) { return {Kind::kUntil, step}; }                          // until 5
  static When asked(What what) { return {Kind::kAsked, 0, 0, what}; }                       // asked meet
  static When tell(int peer) { return {Kind::kAsked, 0, 0, What::kTell, peer}; }            // asked tell 3
  static When arrival(int peer) { return {Kind::kArrival, 0, 0, {}, peer}; }                // arrival from 3
  static When every(int64_t steps, int64_t first) { return {Kind::kEvery, steps, first}; }  // every 4 first 2
  static When every(int64_t steps) { return every(steps, steps); }                          // every 4

  // Of a list that is run every so many steps: after how many it was last (0: not yet), and whether that is
  // now.
  int64_t last_run(int64_t steps_made) const;
  bool is_due_after(int64_t steps_made) const { return steps_made > 0 && last_run(steps_made) == steps_made; }

  friend bool operator==(const When&, const When&) = default;
};

std::string to_string(const When& when);
// Throws Error for a text that is none.
When parse_when(std::string_view text);

// A sum that one list begins and another one awaits goes on while the steps between them are made.
struct ActionList {
  std::string name;  // for people; and the same on both ends of a message (program/verify.h)
  std::vector<Action> actions;
  When when;
  // Microbatch i of a batch has the rows [i·rows, (i + 1)·rows), of which this rank takes `own`.
  int64_t rows = 0;
  Part own = {};
  int64_t microbatches = 1;  // of all ranks together, for random numbers
};

}  // namespace trireme
