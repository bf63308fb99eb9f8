// Places blocks that live for a span of time each: at the lowest offset that no block placed before covers
// while it lives. What a placement costs grows with the holes below it, not with the blocks placed before:
// blocks that lie side by side count as one run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

class FirstFit {
 public:
  struct Moments {
    int begin, end;  // both included
  };

  explicit FirstFit(int moments);  // blocks live in [0, moments)

  // The offset of a block that lives from `begin` to `end`, both included.
  size_t place(int begin, int end, size_t bytes);
  // The same for a block that lives several times and is always at the same place.
  size_t place(std::span<const Moments> lives, size_t bytes);
  size_t total_bytes() const { return total_bytes_; }
  int64_t looks() const { return looks_; }  // at lists of runs: what all placements cost so far

 private:
  struct Run {
    size_t begin, end;
  };
  using Runs = std::vector<Run>;  // ascending, with holes between them

  // A node of a binary tree over time. A life is cut into the fewest nodes that make it up, its parts.
  struct Span {
    Runs all_along;  // covered by blocks of which this node is a part
    Runs at_times;   // covered by any block at any moment of this node
  };
  enum class Is { kPart, kAbovePart };

  // Calls see(span, Is) for the parts of `life` and for all nodes above them.
  template <typename See>
  void visit(Moments life, const See& see, size_t node, Moments of_node);
  size_t lowest(std::span<const Moments> lives, size_t bytes);
  static void add(Runs& runs, Run run);

  Moments all_;
  std::vector<Span> spans_;  // the root is 1, the children of i are 2i and 2i + 1
  size_t total_bytes_ = 0;
  int64_t looks_ = 0;
};

}  // namespace trireme
