// Interned expressions: each sum is made once, found again by its two sides in ascending order.
#include "trireme/comm/collective/expression.h"

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::comm {

Expressions::Expressions(int ranks) : ranks_(ranks) {
  add({.chunk = -1, .times = std::vector<int>(ranks)});  // kUndefined
}

int Expressions::add(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

int Expressions::contribution(int rank, int chunk) {
  const auto [place, is_new] = contributions_.try_emplace({rank, chunk});
  if (is_new) {
    Node node{.chunk = chunk, .times = std::vector<int>(ranks_)};
    node.times[rank] = 1;
    place->second = add(std::move(node));
  }
  return place->second;
}

int Expressions::sum(int a, int b) {
  TRIREME_CHECK(chunk(a) == chunk(b));
  const auto [place, is_new] = sums_.try_emplace(std::minmax(a, b));
  if (is_new) {
    Node node = nodes_[a];
    for (int rank = 0; rank < ranks_; ++rank) node.times[rank] += nodes_[b].times[rank];
    place->second = add(std::move(node));
  }
  return place->second;
}

}  // namespace trireme::comm
