// Finds what can move, then lists front, middle and end: at both sides op by op, as soon as all that is read
// is there.
#include "trireme/passes/gather.h"

#include <algorithm>

#include "trireme/ir/verify.h"

namespace trireme {
namespace {

class Gatherer {
 public:
  Gatherer(const Graph& graph, const GroupQuery& groups) : graph_(graph), place_(graph.nodes.size()) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      const bool from_outside = std::ranges::all_of(node.inputs, [&](ValueId id) {
        const int maker = graph.values[id].node;
        return maker < 0 || place_[maker] == Place::kFront;
      });
      if (groups(graph, node)) place_[n] = from_outside ? Place::kFront : Place::kEnd;
    }
    const std::vector<std::vector<int>> readers = graph.readers();
    for (int n = static_cast<int>(graph.nodes.size()) - 1; n >= 0; --n) {
      if (place_[n] != Place::kEnd) continue;
      for (ValueId output : graph.nodes[n].outputs) {
        for (int reader : readers[output]) {
          if (place_[reader] != Place::kEnd) place_[n] = Place::kMiddle;
        }
      }
    }
  }

  Graph run() {
    by_op(Place::kFront);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (place_[n] == Place::kMiddle) order_.push_back(static_cast<int>(n));
    }
    by_op(Place::kEnd);
    Graph result = graph_;
    for (size_t i = 0; i < order_.size(); ++i) {
      result.nodes[i] = graph_.nodes[order_[i]];
      for (ValueId output : result.nodes[i].outputs) result.values[output].node = static_cast<int>(i);
    }
    return result;
  }

 private:
  enum class Place { kMiddle, kFront, kEnd };

  // Of the nodes of a side, all that are like the first one that is ready, and so on.
  void by_op(Place place) {
    std::vector<int> left;
    for (size_t n = 0; n < place_.size(); ++n) {
      if (place_[n] == place) left.push_back(static_cast<int>(n));
    }
    while (!left.empty()) {
      std::vector<int> now, later;
      for (int n : left) {
        const bool ready = std::ranges::none_of(graph_.nodes[n].inputs, [&](ValueId id) {
          const int maker = graph_.values[id].node;
          return std::ranges::binary_search(left, maker);
        });
        const bool alike = now.empty() || graph_.nodes[n].op == graph_.nodes[now[0]].op;
        (ready && alike ? now : later).push_back(n);
      }
      order_.insert(order_.end(), now.begin(), now.end());
      left = std::move(later);
    }
  }

  const Graph& graph_;
  std::vector<Place> place_;
  std::vector<int> order_;
};

}  // namespace

Graph gathered(const Graph& graph, const GroupQuery& groups) {
  Graph result = Gatherer(graph, groups).run();
  debug_verify(result);
  return result;
}

}  // namespace trireme
