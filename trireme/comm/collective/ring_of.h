// A ring of some of the ranks over some of the chunks: the whole of `ring`, and the two levels of
// `hierarchical`.
#pragma once

#include <vector>

#include "trireme/comm/collective/steps.h"

namespace trireme::comm {

struct Ring {
  std::vector<int> members;  // ranks, in the order of the ring
  int first_chunk = 0;
  int block_chunks = 1;  // block i, of member i, is this many chunks; one block after another

  Chunks block(int member) const {  // modulo the number of members
    const int size = static_cast<int>(members.size());
    return {first_chunk + (member % size + size) % size * block_chunks, block_chunks};
  }
};

// Member i ends with block i reduced. size-1 rounds; each member sends size-1 blocks.
inline void reduce_scatter(Steps& steps, const Ring& ring) {
  const int size = static_cast<int>(ring.members.size());
  for (int k = 1; k < size; ++k) {
    steps.round([&] {
      for (int i = 0; i < size; ++i) {
        steps.send(ring.members[i], ring.members[(i + 1) % size], ring.block(i - k), Action::add);
      }
    });
  }
}

// Member i gives block i, all end with all. size-1 rounds; each member sends size-1 blocks.
inline void all_gather(Steps& steps, const Ring& ring) {
  const int size = static_cast<int>(ring.members.size());
  for (int k = 0; k + 1 < size; ++k) {
    steps.round([&] {
      for (int i = 0; i < size; ++i) {
        steps.send(ring.members[i], ring.members[(i + 1) % size], ring.block(i - k), Action::copy);
      }
    });
  }
}

}  // namespace trireme::comm
