// See batch_check.h.
#include "trireme/train/batch_check.h"

#include "trireme/base/error.h"

namespace trireme {
namespace {

// The value that this one is, under other shapes.
ValueId behind_shapes(const Graph& graph, ValueId value) {
  while (graph.values[value].kind == Value::Kind::kResult) {
    const Node& maker = graph.nodes[graph.values[value].node];
    if (maker.op->memory != OpRecord::Memory::kShared) break;
    value = maker.inputs[0];
  }
  return value;
}

}  // namespace

BatchCheck::BatchCheck(const Program& program) : ids_(program.segments.size()) {
  for (size_t s = 0; s < program.segments.size(); ++s) {
    const Graph& graph = program.segments[s].graph;
    for (const Node& node : graph.nodes) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const std::optional<IdRange> range = id_range(graph, node, static_cast<int>(i));
        if (!range) continue;
        const Value& source = graph.values[behind_shapes(graph, node.inputs[i])];
        if (source.role == Role::kBatch) ids_[s].push_back({source.name, *range});
      }
    }
  }
}

void BatchCheck::check(int segment, const Value& input, const HostTensor& given,
                       std::span<const std::byte> rows) const {
  if (given.dtype != input.type.dtype)
    throw_error("the batch's '{}' is {}, but the model takes {}", input.name, name(given.dtype),
                name(input.type.dtype));
  for (const Ids& ids : ids_[static_cast<size_t>(segment)]) {
    if (ids.input != input.name) continue;
    const auto* values = reinterpret_cast<const int32_t*>(rows.data());
    for (size_t i = 0; i < rows.size() / sizeof(int32_t); ++i) {
      if ((values[i] >= 0 && values[i] < ids.range.below) || values[i] == ids.range.ignored) continue;
      throw_error(
          "the batch's '{}' has {}, but the model has {} {}: 0 to {} expected{}; change the data, or the "
          "model (model.vocab, model.classes)",
          input.name, values[i], ids.range.below, ids.range.what, ids.range.below - 1,
          ids.range.ignored ? fmt::format(", or {} for targets that do not count", *ids.range.ignored) : "");
    }
  }
}

}  // namespace trireme
