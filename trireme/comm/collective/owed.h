// What each collective gives and owes: who contributes to a chunk, who holds it at the start, who at the end.
#pragma once

#include "trireme/comm/collective/call.h"

namespace trireme::comm {

class Owed {
 public:
  // `pieces`: into how many each chunk has been cut.
  Owed(Collective collective, int ranks, int root, int pieces = 1)
      : collective_(collective), ranks_(ranks), root_(root), pieces_(pieces) {}

  // Data chunks that the collective needs, before they are cut, or 0 where any number does.
  int chunks() const;
  // Whether `rank` begins with a contribution to this piece of a chunk.
  bool gives(int rank, int piece) const;
  // Whether `rank` must end with it, with the contributions of all who give.
  bool gets(int rank, int piece) const;

 private:
  Collective collective_;
  int ranks_;
  int root_;
  int pieces_;
};

}  // namespace trireme::comm
