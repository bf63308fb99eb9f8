// Where the stashes of a pipeline lie. A stash holds what one segment leaves for another of the same
// microbatch. Its memory is free again when the last one has read it, for any other stash of any microbatch
// and any chunk of the stage: the memory for stashes is what is there at a time, not what each of them needs
// at most.
//
// A state's slot s lies in places[s modulo their number], so that segments, which are prepared for each place
// of their states, need not be prepared for each of thousands of microbatches.
#pragma once

#include <string>
#include <vector>

#include "trireme/program/program.h"

namespace trireme {

struct StashPool {
  struct Stash {
    const Value* value;          // of one of the segments
    std::vector<size_t> places;  // by slot, from the beginning of the pool
  };
  std::vector<Stash> stashes;  // in the order in which graphs name them
  size_t bytes = 0;
};
struct StashPools {
  StashPool own, comm;  // in the rank's own memory and in comm memory
};

// Of all stashes but those that have slots of their own, by when the actions of each list make and read them.
// Lists are run one after the other, and nothing is left in stashes between them.
StashPools place_stashes(const std::vector<StepSegment>& segments, const std::vector<ActionList>& lists,
                         const StateNames& in_comm_memory, const StateSlots& own_slots);

// The most places of a stash, unless more microbatches are live at a time. A segment is prepared for each.
inline constexpr int kMostStashPlaces = 128;

}  // namespace trireme
