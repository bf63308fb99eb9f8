// Index rules say whether rows are apart.
#include "trireme/passes/row_pieces.h"

#include <fmt/format.h>

#include <algorithm>

#include "trireme/ir/graph_copy.h"
#include "trireme/ir/verify.h"
#include "trireme/ir/window.h"
#include "trireme/passes/spread.h"

namespace trireme {
namespace {

class Cutter {
 public:
  Cutter(const Graph& graph, const Shape& like, const OpTable& ops) : graph_(graph), like_(like), ops_(ops) {}

  bool works_by_rows() const {
    const auto by_rows = [&](const Node& node) { return !node.op->collective && keeps_rows_apart(node); };
    // What is no row is made once, not by every piece.
    return std::ranges::all_of(graph_.nodes, by_rows) &&
           std::ranges::all_of(graph_.updates,
                               [&](const Update& update) { return has_rows(update.state); }) &&
           std::ranges::none_of(graph_.outputs, [&](const Output& output) { return has_rows(output.value); });
  }

  Graph piece(std::string name, int64_t first, int64_t rows, bool is_last) const {
    GraphCopy copy(graph_, ops_, std::move(name));
    for (ValueId v = 0; v < std::ssize(graph_.values); ++v) {
      const Value& value = graph_.values[v];
      if (value.kind == Value::Kind::kResult) continue;
      copy.set(v, copy.builder().declare(has_rows(v) ? window(value, first, rows) : value));
    }
    for (const Node& node : graph_.nodes) copy.add(node);
    copy.finish();
    Graph piece = copy.take();
    if (!is_last) piece.outputs.clear();
    debug_verify(piece);
    return piece;
  }

 private:
  bool has_rows(ValueId value) const { return graph_.values[value].type.shape == like_; }

  // Along one index, which nothing but rows has.
  bool keeps_rows_apart(const Node& node) const {
    const IndexRule rule = rule_of(graph_, node);
    int row = -1;
    bool apart = true;
    const auto look = [&](const std::vector<IndexRule::Operand>& operands,
                          const std::vector<ValueId>& values) {
      for (size_t i = 0; i < values.size(); ++i) {
        if (!has_rows(values[i])) continue;
        const IndexRule::Dim& dim = operands[i][0];
        apart = apart && dim.size() == 1 && (row < 0 || row == dim[0]);
        row = dim[0];
      }
    };
    look(rule.inputs, node.inputs);
    look(rule.outputs, node.outputs);
    if (row < 0) return true;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      apart = apart && (has_rows(node.inputs[i]) || IndexRule::dim_of(rule.inputs[i], row) < 0);
    // A result without rows would be a sum over them.
    apart = apart && std::ranges::all_of(node.outputs, [&](ValueId output) { return has_rows(output); });
    return apart && rule.may_split(row);
  }

  const Graph& graph_;
  const Shape& like_;
  const OpTable& ops_;
};

}  // namespace

std::vector<Graph> in_row_pieces(const Graph& graph, const Shape& like, int64_t rows, const OpTable& ops) {
  const Cutter cutter(graph, like, ops);
  if (like.rank() == 0 || rows >= like[0] || !cutter.works_by_rows()) return {graph};
  std::vector<Graph> pieces;
  for (int64_t first = 0; first < like[0]; first += rows) {
    const bool is_last = first + rows >= like[0];
    pieces.push_back(cutter.piece(is_last ? graph.name : fmt::format("{}.rows{}", graph.name, pieces.size()),
                                  first, std::min(rows, like[0] - first), is_last));
  }
  return pieces;
}

}  // namespace trireme
