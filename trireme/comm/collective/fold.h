// What halving and doubling share. They need a power of two: with P = 2^k + extra ranks, ranks 2i and 2i+1
// for i < extra are one member, for which 2i works; every further rank is a member of its own. Neighbours are
// folded, so that the parts of a member are neighbours too.
#pragma once

#include <algorithm>
#include <bit>

#include "trireme/comm/collective/steps.h"

namespace trireme::comm {

class Fold {
 public:
  explicit Fold(int ranks)
      : members_(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))), extra_(ranks - members_) {}

  int members() const { return members_; }
  int extra() const { return extra_; }
  // The rank that works for a member. first_rank(members()) is the number of ranks.
  int first_rank(int member) const { return member + std::min(member, extra_); }

 private:
  int members_;
  int extra_;
};

// The blocks of members begin … end-1, where `chunk_of(member)` is the first chunk of each.
template <typename ChunkOf>
Chunks blocks(int begin, int end, const ChunkOf& chunk_of) {
  return {chunk_of(begin), chunk_of(end) - chunk_of(begin)};
}

// Recursive halving: member i ends with block i reduced. In each round a member gives away the half of its
// blocks that its partner keeps. log₂ rounds; each sends all blocks but one.
template <typename ChunkOf>
void halve(Steps& steps, const Fold& fold, const ChunkOf& chunk_of) {
  for (int half = fold.members() / 2; half >= 1; half /= 2) {
    steps.round([&] {
      for (int member = 0; member < fold.members(); ++member) {
        const int partner = member ^ half;
        const int begin = partner & -half;
        steps.send(fold.first_rank(member), fold.first_rank(partner), blocks(begin, begin + half, chunk_of),
                   Action::add);
      }
    });
  }
}

// Recursive doubling of what a member holds: member i gives block i, all members end with all.
template <typename ChunkOf>
void double_up(Steps& steps, const Fold& fold, const ChunkOf& chunk_of) {
  for (int held = 1; held < fold.members(); held *= 2) {
    steps.round([&] {
      for (int member = 0; member < fold.members(); ++member) {
        const int begin = member & -held;
        steps.send(fold.first_rank(member), fold.first_rank(member ^ held),
                   blocks(begin, begin + held, chunk_of), Action::copy);
      }
    });
  }
}

// The extra ranks give all they have to their neighbours, and get all of the result back.
inline void fold_in(Steps& steps, const Fold& fold) {
  for (int i = 0; i < fold.extra(); ++i) {
    steps.send(2 * i + 1, 2 * i, Chunks{0, steps.chunks()}, Action::add);
  }
}
inline void fold_out(Steps& steps, const Fold& fold) {
  for (int i = 0; i < fold.extra(); ++i) {
    steps.send(2 * i, 2 * i + 1, Chunks{0, steps.chunks()}, Action::copy);
  }
}

}  // namespace trireme::comm
