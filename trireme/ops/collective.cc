// Collectives as nodes of a program: what the partition pass puts where a layout changes.
#include "trireme/ops/collective.h"

namespace trireme {
namespace {

IndexRule all_reduce_rule(const OpInstance& op) {
  if (op.inputs.size() != 1) throw_error("[{}] {} inputs given, 1 expected", op.op, op.inputs.size());
  const std::string& reduction = op.attrs.text("reduction");
  if (reduction != "sum" && reduction != "max")
    throw_error("[{}] reduction is '{}'; sum or max expected", op.op, reduction);
  return resized(op, {op.shape(0)});
}

// Parts that are neighbours in the whole, all of one size, are gathered where they belong.
bool lie_in_order(const OpInstance& op) {
  const int dim = checked_dim(op, "dim");
  const int64_t unit = op.attrs.integer("unit", 1);
  return op.shape(0).elements(0, dim) == 1 && op.attrs.integer("blocks", 1) == 1 &&
         op.attrs.integer("extent") % (unit * op.attrs.integer("ways")) == 0;
}

IndexRule all_gather_rule(const OpInstance& op) {
  const int dim = checked_dim(op, "dim");
  Shape shape = op.shape(0);
  shape.set(dim, op.attrs.integer("extent"));
  expect_extent(op, dim, local_extent(op, "", shape[dim]));
  return resized(op, {shape});
}

IndexRule reduce_scatter_rule(const OpInstance& op) {
  const int dim = checked_dim(op, "dim");
  Shape shape = op.shape(0);
  shape.set(dim, local_extent(op, "", shape[dim]));
  return resized(op, {shape});
}

IndexRule all_to_all_rule(const OpInstance& op) {
  const int gathered = checked_dim(op, "dim"), cut = checked_dim(op, "to_dim");
  if (gathered == cut) throw_error("[{}] dim and to_dim are both {}", op.op, cut);
  Shape shape = op.shape(0);
  shape.set(gathered, op.attrs.integer("extent"));
  shape.set(cut, local_extent(op, "to_", shape[cut]));
  expect_extent(op, gathered, local_extent(op, "", shape[gathered]));
  return resized(op, {shape});
}

IndexRule shift_rule(const OpInstance& op) {
  check_shift(op);
  return resized(op, {op.shape(0)});
}

}  // namespace

void add_collective(OpTable& table) {
  const auto add = [&](CollectiveKind kind, IndexRule (*index)(const OpInstance&),
                       std::vector<InPlace> in_place, OpRecord::InTime in_time) {
    OpRecord record = collective_record(name(kind), {kind}, index);
    record.in_place = std::move(in_place);
    record.in_time = in_time;
    table.add(std::move(record));
  };
  using Tensors = OpRecord::InTime::Tensors;
  add(CollectiveKind::kAllReduce, all_reduce_rule, {{0, 0}},
      {"all_reduce_start", "all_reduce_wait", nullptr, Tensors::kMany});
  add(CollectiveKind::kAllGather, all_gather_rule, {},
      {"all_gather_start", "all_gather_wait", lie_in_order, Tensors::kOne});
  add(CollectiveKind::kReduceScatter, reduce_scatter_rule, {},
      {"reduce_scatter_start", "reduce_scatter_wait", nullptr, Tensors::kMany});
  add(CollectiveKind::kAllToAll, all_to_all_rule, {}, {});
  add(CollectiveKind::kShift, shift_rule, {}, {"shift_start", "shift_wait", nullptr, Tensors::kOneHere});
}

}  // namespace trireme
