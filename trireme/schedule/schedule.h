// Schedule: the order of what one rank does in a training step, as data. One function per kind of schedule
// returns it; trainer, benchmark, viewer and simulator read it, and none has an order of its own.
//
//   accumulate   microbatches after one another, each spread over all ranks; then the update
//   shards       virtual shards, each computed by one rank, added up in one tree (shards.cc)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/plan/plan.h"

namespace trireme {

struct Action {
  enum class Kind {
    kRun,      // a segment
    kSend,     // a state's slot, to the rank `peer`
    kReceive,  // a state's slot, from there
    kReduce,   // begins to add up a state's slot over the replicas (replica_axis), in its place; goes on
              // behind the list
    kAwait,  // until that is through, whichever list began it
    kFetch,  // a group of states, from the file in which it rests
    kStore,  // back to there
  };
  Kind kind = Kind::kRun;
  std::string what;        // the segment, the state or the group, by its name
  int64_t microbatch = 0;  // whose rows and random numbers the segment takes
  int slot = 0;            // of the states that have several; see program/program.h
  int peer = -1;           // of a message

  static Action run(std::string segment, int64_t microbatch = 0, int slot = 0) {
    return {Kind::kRun, std::move(segment), microbatch, slot};
  }
  static Action send(std::string state, int peer, int slot = 0) {
    return {Kind::kSend, std::move(state), 0, slot, peer};
  }
  static Action receive(std::string state, int peer, int slot = 0) {
    return {Kind::kReceive, std::move(state), 0, slot, peer};
  }
  static Action reduce(std::string state, int slot = 0) { return {Kind::kReduce, std::move(state), 0, slot}; }
  static Action await(std::string state, int slot = 0) { return {Kind::kAwait, std::move(state), 0, slot}; }
  static Action fetch(std::string group) { return {Kind::kFetch, std::move(group)}; }
  static Action store(std::string group) { return {Kind::kStore, std::move(group)}; }
  bool is_message() const { return kind == Kind::kSend || kind == Kind::kReceive; }
  bool is_of_sum() const { return kind == Kind::kReduce || kind == Kind::kAwait; }
  bool is_of_file() const { return kind == Kind::kFetch || kind == Kind::kStore; }
  friend bool operator==(const Action&, const Action&) = default;
};

struct Schedule {
  int64_t microbatches = 1;  // of a step; numbers in `step` are below
  int64_t own = 1;           // of them, that this rank has a part in
  // What a rank computes of a microbatch: the part that the plan deals to it, or all of it.
  enum class Deal { kParts, kWholes } deal = Deal::kParts;
  // Sums over the ranks must add neighbours first, then pairs of neighbours, and so on.
  enum class Sums { kAnyOrder, kInPairs } sums = Sums::kAnyOrder;
  std::vector<Action> step;
  // Evaluates as many rows as a step computes at a time on this rank alone; several times where that is less
  // than a batch of evaluation.
  std::vector<Action> evaluation;
};

// Segments: first (replaces what was accumulated), next (adds to it), update; evaluate.
Schedule accumulate(int64_t microbatches);

// Segments: first, left, merge1, merge2, …, update; evaluate. Throws Error when the plan can not keep the
// promise: ranks that do not share `total` (a power of two) evenly, or that split anything but the batch.
Schedule shards(int64_t total, const Plan& plan, int rank);

}  // namespace trireme
