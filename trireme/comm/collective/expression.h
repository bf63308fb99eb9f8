// What a chunk holds in the symbolic run: a sum of contributions, as a number. Equal numbers are equal
// expressions, but for the order of the two sides of one addition, and so equal bits.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace trireme::comm {

class Expressions {
 public:
  static constexpr int kUndefined = 0;

  explicit Expressions(int ranks);

  int contribution(int rank, int chunk);
  int sum(int a, int b);  // of the same chunk

  int chunk(int expression) const { return nodes_[expression].chunk; }
  // How often the contribution of each rank is in it.
  const std::vector<int>& times(int expression) const { return nodes_[expression].times; }

 private:
  struct Node {
    int chunk;
    std::vector<int> times;
  };
  int add(Node node);

  int ranks_;
  std::vector<Node> nodes_;
  std::map<std::pair<int, int>, int> contributions_;
  std::map<std::pair<int, int>, int> sums_;
};

}  // namespace trireme::comm
