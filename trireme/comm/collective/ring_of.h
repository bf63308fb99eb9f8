// A ring of some of the ranks over some of the chunks: the whole of `ring`, and the two levels of
// `hierarchical`.
#pragma once

#include <utility>
#include <vector>

#include "trireme/comm/collective/steps.h"

namespace trireme::comm {

struct Ring {
  std::vector<int> members;                 // ranks, in the order of the ring
  std::vector<std::vector<Chunks>> blocks;  // of each member, a message for each run of neighbouring chunks
};

// Of blocks of `block_chunks` chunks each, one after another from `first_chunk` on.
inline Ring even_ring(std::vector<int> members, int first_chunk, int block_chunks) {
  Ring ring{.members = std::move(members), .blocks = {}};
  for (int i = 0; i < static_cast<int>(ring.members.size()); ++i)
    ring.blocks.push_back({Chunks{first_chunk + i * block_chunks, block_chunks}});
  return ring;
}

// `member` sends block `block` to the next; both modulo the number of members.
inline void pass_on(Steps& steps, const Ring& ring, int member, int block, Action action) {
  const int size = static_cast<int>(ring.members.size());
  for (const Chunks run : ring.blocks[(block % size + size) % size])
    steps.send(ring.members[member], ring.members[(member + 1) % size], run, action);
}

// Member i ends with block i reduced. size-1 rounds; each member sends all blocks but its own.
inline void reduce_scatter(Steps& steps, const Ring& ring) {
  const int size = static_cast<int>(ring.members.size());
  for (int k = 1; k < size; ++k) {
    steps.round([&] {
      for (int i = 0; i < size; ++i) pass_on(steps, ring, i, i - k, Action::add);
    });
  }
}

// Member i gives block i, all end with all. size-1 rounds; each member sends all blocks but the next one's.
inline void all_gather(Steps& steps, const Ring& ring) {
  const int size = static_cast<int>(ring.members.size());
  for (int k = 0; k + 1 < size; ++k) {
    steps.round([&] {
      for (int i = 0; i < size; ++i) pass_on(steps, ring, i, i - k, Action::copy);
    });
  }
}

}  // namespace trireme::comm
