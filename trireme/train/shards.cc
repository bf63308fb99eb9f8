// Graphs of a binary counter over accumulated gradients.
#include "trireme/train/shards.h"

#include <bit>

#include "trireme/base/error.h"
#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

std::string waiting_name(int level, std::string_view state) {
  return fmt::format("left{}.{}", level, state);
}

Graph left_graph(Graph first) {
  first.name = "left";
  for (const Update& update : first.updates) {
    Value& state = first.values[update.state];
    state.name = waiting_name(0, state.name);
  }
  return first;
}

Graph merge_graph(const Graph& first, int levels, bool last) {
  Builder b(ops(), fmt::format("merge{}", levels));
  for (const Update& update : first.updates) {
    const Value& state = first.values[update.state];
    const Builder::Scope scope(b, state.name);
    const auto waiting = [&](int level) {
      return b.state(waiting_name(level, state.name), state.type, state.role, state.attrs);
    };
    const ValueId own = b.declare(state);
    ValueId sum = own;
    for (int level = 0; level < levels; ++level) sum = b.op("add", {waiting(level), sum});
    b.update(last ? own : waiting(levels), sum);
  }
  return b.take();
}

int levels_of(int64_t own) {
  return std::countr_zero(static_cast<uint64_t>(own));
}

}  // namespace

std::vector<Graph> shard_graphs(const Graph& first, int64_t own) {
  std::vector<Graph> graphs;
  if (own > 1) graphs.push_back(left_graph(first));
  for (int level = 1; level <= levels_of(own); ++level)
    graphs.push_back(merge_graph(first, level, level == levels_of(own)));
  return graphs;
}

}  // namespace trireme
