// A binary counter over accumulated gradients.
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
    const ValueId own = b.state(state.name, state.type, state.attrs);
    ValueId sum = own;
    for (int level = 0; level < levels; ++level)
      sum = b.op("add", {b.state(waiting_name(level, state.name), state.type, state.attrs), sum});
    b.update(last ? own : b.state(waiting_name(levels, state.name), state.type, state.attrs), sum);
  }
  return b.take();
}

int levels_of(int64_t own) {
  return std::countr_zero(static_cast<uint64_t>(own));
}

}  // namespace

ShardShare shards_of(const TrainOptions& train, const Plan& plan, int rank) {
  if (train.shards == 0) return {};
  TRIREME_CHECK(std::has_single_bit(static_cast<uint64_t>(train.shards)));
  if (plan.preset != "data" || !plan.layouts.empty()) {
    throw_error(
        "train.shards = {} promises the same bits on any number of ranks, which holds for data parallelism "
        "alone; the plan is '{}'{}, whose parts of tensors are added up in an order of their own. Use the "
        "plan data, or train.shards=0",
        train.shards, plan.preset, plan.layouts.empty() ? "" : " with layouts of single values");
  }
  const int64_t ranks = plan.mesh.ranks();
  if (train.shards % ranks != 0) {
    throw_error(
        "train.shards = {} can not be shared evenly by {} ranks; start a power of two of them, {} at most, "
        "or raise train.shards",
        train.shards, ranks, train.shards);
  }
  const int64_t own = train.shards / ranks;
  return {train.shards, rank * own, own};
}

comm::Algorithm all_reduce_of(const TrainOptions& train) {
  return train.shards > 0 ? comm::Algorithm::butterfly : comm::Algorithm::automatic;
}

std::vector<Graph> shard_graphs(const Graph& first, int64_t own) {
  std::vector<Graph> graphs;
  if (own > 1) graphs.push_back(left_graph(first));
  for (int level = 1; level <= levels_of(own); ++level)
    graphs.push_back(merge_graph(first, level, level == levels_of(own)));
  return graphs;
}

ShardSegments segments_of_shard(int64_t index, int64_t own) {
  if (index % 2 == 0 && own > 1) return {"left", ""};
  const int merged = std::countr_one(static_cast<uint64_t>(index));
  return {"first", merged == 0 ? "" : fmt::format("merge{}", merged)};
}

}  // namespace trireme
