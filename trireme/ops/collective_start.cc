// Collectives that are under way while other nodes run: what the bucket pass makes of the blocking ones. A
// start takes the attributes of the collective; a wait has them too. Where several tensors are packed in one,
// both have the attributes of ir/packing.h in place of those that say how one tensor is cut.
#include "trireme/ir/packing.h"
#include "trireme/ops/collective.h"

namespace trireme {
namespace {

std::vector<Shape> shapes_of(const OpInstance& op) {
  if (op.inputs.empty() || op.inputs.size() > OpRecord::InTime::kMost)
    throw_error("[{}] {} inputs given, 1 to {} expected", op.op, op.inputs.size(), OpRecord::InTime::kMost);
  std::vector<Shape> shapes;
  for (const TensorType& input : op.inputs) shapes.push_back(input.shape);
  return shapes;
}

IndexRule same_rule(const OpInstance& op) {
  return resized(op, shapes_of(op));
}

IndexRule all_gather_start_rule(const OpInstance& op) {
  const int dim = checked_dim(op, "dim");
  Shape shape = op.shape(0);
  shape.set(dim, op.attrs.integer("extent"));
  expect_extent(op, dim, local_extent(op, "", shape[dim]));
  return resized(op, {shape});
}

// Those of several tensors that are packed in one; see ir/packing.h.

struct Packing {
  std::vector<Shape> wholes, parts;  // of this rank
  Shape packed;
};

Packing packing_of(const OpInstance& op) {
  const int64_t ways = op.attrs.integer("ways"), own = op.attrs.integer("coordinate");
  if (own < 0 || own >= ways)
    throw_error("[{}] rank {} of {} along {} does not exist", op.op, own, ways, op.attrs.text("axis"));
  Packing result;
  int64_t width = 0;
  try {
    for_each_packed(op.attrs, [&](const CutTensor& tensor) {
      result.wholes.push_back(tensor.whole);
      result.parts.push_back(tensor.part(ways, own));
      width += tensor.largest(ways);
    });
  } catch (const Error& error) {
    throw_error("[{}] {}", op.op, error.what());
  }
  result.packed = {ways, width};
  return result;
}

IndexRule packing_rule(const OpInstance& op, const std::vector<Shape>& given, const Shape& packed) {
  const std::vector<Shape> found = shapes_of(op);
  if (found.size() != given.size())
    throw_error("[{}] {} inputs given, {} expected", op.op, found.size(), given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    if (found[i] != given[i])
      throw_error("[{}] input {} is {}, {} expected", op.op, i, to_string(found[i]), to_string(given[i]));
  }
  return resized(op, {packed});
}

IndexRule unpacking_rule(const OpInstance& op, const Shape& packed, const std::vector<Shape>& made) {
  if (op.inputs.size() != 1) throw_error("[{}] {} inputs given, 1 expected", op.op, op.inputs.size());
  if (op.shape(0) != packed)
    throw_error("[{}] what was started is {}, {} expected", op.op, to_string(op.shape(0)), to_string(packed));
  return resized(op, made);
}

IndexRule reduce_scatter_start_rule(const OpInstance& op) {
  const Packing packing = packing_of(op);
  return packing_rule(op, packing.wholes, packing.packed);
}

IndexRule reduce_scatter_wait_rule(const OpInstance& op) {
  const Packing packing = packing_of(op);
  return unpacking_rule(op, packing.packed, packing.parts);
}

IndexRule all_gather_packed_start_rule(const OpInstance& op) {
  const Packing packing = packing_of(op);
  return packing_rule(op, packing.parts, packing.packed);
}

IndexRule all_gather_packed_wait_rule(const OpInstance& op) {
  const Packing packing = packing_of(op);
  return unpacking_rule(op, packing.packed, packing.wholes);
}

// What goes and what comes, one after another: what is given may be overwritten before it has gone.
IndexRule shift_start_rule(const OpInstance& op) {
  check_shift(op);
  if (op.shape(0).rank() == Shape::kMaxDims)
    throw_error("[{}] {} has {} dims, fewer expected", op.op, to_string(op.shape(0)), Shape::kMaxDims);
  Shape both = {2};
  for (const int64_t extent : op.shape(0)) both.push_back(extent);
  return resized(op, {both});
}

IndexRule shift_wait_rule(const OpInstance& op) {
  check_shift(op);
  if (op.shape(0).rank() == 0 || op.shape(0)[0] != 2)
    throw_error("[{}] what was started is {}; what goes and what comes expected", op.op,
                to_string(op.shape(0)));
  return resized(op, {op.shape(0).slice(1, op.shape(0).rank())});
}

}  // namespace

void add_collective_start(OpTable& table) {
  using Phase = OpRecord::Collective::Phase;
  std::vector<InPlace> each;
  for (int i = 0; i < OpRecord::InTime::kMost; ++i) each.push_back({i, i});
  const auto add = [&](std::string_view name, OpRecord::Collective collective,
                       IndexRule (*index)(const OpInstance&), std::vector<InPlace> in_place,
                       OpRecord::InTime several = {}) {
    OpRecord record = collective_record(name, collective, index);
    record.in_place = std::move(in_place);
    record.in_time = several;
    table.add(std::move(record));
  };
  constexpr auto kAllReduce = CollectiveKind::kAllReduce, kAllGather = CollectiveKind::kAllGather,
                 kReduceScatter = CollectiveKind::kReduceScatter;
  add("all_reduce_start", {kAllReduce, Phase::kStart}, same_rule, each);
  // One tensor is gathered where it is to lie; several together are packed.
  add("all_gather_start", {kAllGather, Phase::kStart}, all_gather_start_rule, {},
      {"all_gather_packed_start", "all_gather_packed_wait", nullptr, OpRecord::InTime::Tensors::kMany});
  add("reduce_scatter_start", {kReduceScatter, Phase::kStart}, reduce_scatter_start_rule, {});
  add("all_gather_packed_start", {kAllGather, Phase::kStart}, all_gather_packed_start_rule, {});
  add("shift_start", {CollectiveKind::kShift, Phase::kStart}, shift_start_rule, {});
  add("shift_wait", {CollectiveKind::kShift, Phase::kWait}, shift_wait_rule, {});
  add("all_reduce_wait", {kAllReduce, Phase::kWait}, same_rule, each);
  add("all_gather_wait", {kAllGather, Phase::kWait}, same_rule, each);
  add("all_gather_packed_wait", {kAllGather, Phase::kWait}, all_gather_packed_wait_rule, {});
  add("reduce_scatter_wait", {kReduceScatter, Phase::kWait}, reduce_scatter_wait_rule, {});
}

}  // namespace trireme
