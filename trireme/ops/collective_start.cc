// Collectives that are under way while other nodes run: what the bucket pass makes of the blocking ones. A
// start takes the attributes of the collective; a wait has them too, and in `shape` that of the first tensor
// that was started.
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

// The parts one after another, each as large as the largest.
Shape packed_shape(const OpInstance& op, const Shape& whole, int dim) {
  local_extent(op, "", whole[dim]);  // checks the attributes
  const int64_t unit = op.attrs.integer("unit", 1), blocks = op.attrs.integer("blocks", 1),
                ways = op.attrs.integer("ways");
  const int64_t largest = blocks * unit * part_of(whole[dim] / unit / blocks, ways, 0).size;
  const int64_t rest = whole.elements(0, dim) * whole.elements(dim + 1, whole.rank());
  return checked_shape(op, {ways, largest * rest});
}

IndexRule reduce_scatter_start_rule(const OpInstance& op) {
  return resized(op, {packed_shape(op, op.shape(0), checked_dim(op, "dim"))});
}

IndexRule reduce_scatter_wait_rule(const OpInstance& op) {
  if (op.inputs.size() != 1) throw_error("[{}] {} inputs given, 1 expected", op.op, op.inputs.size());
  Shape shape = checked_shape(op, op.attrs.integers("shape"));
  const int64_t dim = op.attrs.integer("dim");
  if (dim < 0 || dim >= shape.rank())
    throw_error("[{}] dim {} of a tensor {} does not exist", op.op, dim, to_string(shape));
  if (const Shape packed = packed_shape(op, shape, static_cast<int>(dim)); packed != op.shape(0))
    throw_error("[{}] what was started is {}, {} expected", op.op, to_string(op.shape(0)), to_string(packed));
  shape.set(static_cast<int>(dim), local_extent(op, "", shape[static_cast<int>(dim)]));
  return resized(op, {shape});
}

}  // namespace

void add_collective_start(OpTable& table) {
  using Phase = OpRecord::Collective::Phase;
  std::vector<InPlace> each;
  for (int i = 0; i < OpRecord::InTime::kMost; ++i) each.push_back({i, i});
  const auto add = [&](std::string_view name, OpRecord::Collective collective,
                       IndexRule (*index)(const OpInstance&), std::vector<InPlace> in_place) {
    OpRecord record = collective_record(name, collective, index);
    record.in_place = std::move(in_place);
    table.add(std::move(record));
  };
  constexpr auto kAllReduce = CollectiveKind::kAllReduce, kAllGather = CollectiveKind::kAllGather,
                 kReduceScatter = CollectiveKind::kReduceScatter;
  add("all_reduce_start", {kAllReduce, Phase::kStart}, same_rule, each);
  add("all_gather_start", {kAllGather, Phase::kStart}, all_gather_start_rule, {});
  add("reduce_scatter_start", {kReduceScatter, Phase::kStart}, reduce_scatter_start_rule, {});
  add("all_reduce_wait", {kAllReduce, Phase::kWait}, same_rule, each);
  add("all_gather_wait", {kAllGather, Phase::kWait}, same_rule, each);
  add("reduce_scatter_wait", {kReduceScatter, Phase::kWait}, reduce_scatter_wait_rule, {});
}

}  // namespace trireme
