// What the records of collectives share. Each works over one axis of the mesh, named by the attribute `axis`,
// with `ways` ranks of which this one is number `coordinate`. The dim that is put together or taken apart is
// `blocks` blocks of whole units of `unit`; each block is cut as part_of() says.
#pragma once

#include "trireme/base/part.h"
#include "trireme/ops/records.h"

namespace trireme {

inline int checked_dim(const OpInstance& op, std::string_view name) {
  if (op.inputs.size() != 1) throw_error("[{}] {} inputs given, 1 expected", op.op, op.inputs.size());
  const int64_t dim = op.attrs.integer(name);
  if (dim < 0 || dim >= op.shape(0).rank())
    throw_error("[{}] {} {} of a tensor {} does not exist", op.op, name, dim, to_string(op.shape(0)));
  return static_cast<int>(dim);
}

// Results of these shapes, and nothing may be split again.
inline IndexRule resized(const OpInstance& op, const std::vector<Shape>& shapes) {
  if (const int64_t ways = op.attrs.integer("ways"), at = op.attrs.integer("coordinate");
      at < 0 || at >= ways)
    throw_error("[{}] rank {} of {} along {} does not exist", op.op, at, ways, op.attrs.text("axis"));
  IndexRule result;
  const auto add = [&](std::vector<IndexRule::Operand>& operands, const Shape& shape) {
    operands.emplace_back();
    for (const int64_t extent : shape) {
      const int index = static_cast<int>(result.indices.size());
      result.indices.push_back(
          {.name = fmt::format("i{}", index), .extent = extent, .split = Index::Split::kWhole});
      operands.back().push_back({index});
    }
  };
  for (const TensorType& input : op.inputs) add(result.inputs, input.shape);
  for (const Shape& shape : shapes) add(result.outputs, shape);
  return result;
}

// What this rank has of an extent, by the attributes with this prefix.
inline int64_t local_extent(const OpInstance& op, const std::string& prefix, int64_t extent) {
  const int64_t unit = op.attrs.integer(prefix + "unit", 1), blocks = op.attrs.integer(prefix + "blocks", 1);
  if (unit < 1 || blocks < 1 || extent % (unit * blocks) != 0)
    throw_error("[{}] an extent of {} is no {} blocks of units of {}", op.op, extent, blocks, unit);
  return blocks * unit *
         part_of(extent / unit / blocks, op.attrs.integer("ways"), op.attrs.integer("coordinate")).size;
}

inline void expect_extent(const OpInstance& op, int dim, int64_t expected) {
  if (op.shape(0)[dim] != expected)
    throw_error("[{}] dim {} of {} has {} elements on this rank, {} expected", op.op, dim,
                to_string(op.shape(0)), op.shape(0)[dim], expected);
}

// Of a shift: `to` and `from` are the ranks of the mesh that it goes to and comes from.
inline void check_shift(const OpInstance& op) {
  if (op.inputs.size() != 1) throw_error("[{}] {} inputs given, 1 expected", op.op, op.inputs.size());
  if (op.attrs.integer("to") < 0 || op.attrs.integer("from") < 0)
    throw_error("[{}] to rank {}, from rank {}; ranks of the mesh expected", op.op, op.attrs.integer("to"),
                op.attrs.integer("from"));
}

inline OpRecord collective_record(std::string_view name, OpRecord::Collective collective,
                                  IndexRule (*index)(const OpInstance&)) {
  return {.name = name,
          .index = index,
          .gradient = NotDifferentiable{"put in by the partition pass, which runs after autodiff"},
          .flops = no_flops,
          .collective = collective};
}

}  // namespace trireme
