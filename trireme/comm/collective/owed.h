// What each collective gives and owes: who contributes to a chunk, who holds it at the start, who at the end.
#pragma once

#include "trireme/comm/call.h"

namespace trireme::comm {

class Owed {
 public:
  Owed(Collective collective, int ranks, int root) : collective_(collective), ranks_(ranks), root_(root) {}

  // Data chunks that the collective needs, or 0 where any number does.
  int chunks() const;
  // Whether `rank` begins with a contribution to `chunk`.
  bool gives(int rank, int chunk) const;
  // Whether `rank` must end with `chunk`, with the contributions of all who give.
  bool gets(int rank, int chunk) const;

 private:
  Collective collective_;
  int ranks_;
  int root_;
};

}  // namespace trireme::comm
