// Collectives as nodes of a program: what the partition pass puts where a layout changes. Each works over one
// axis of the mesh, named by the attribute `axis`, with `ways` ranks of which this one is number
// `coordinate`. The dim that is put together or taken apart is `blocks` blocks of whole units of `unit`; each
// block is cut as part_of() says.
#include "trireme/base/part.h"
#include "trireme/ops/records.h"

namespace trireme {
namespace {

constexpr NotDifferentiable kAfterAutodiff{"put in by the partition pass, which runs after autodiff"};

int checked_dim(const OpInstance& op, std::string_view name) {
  if (op.inputs.size() != 1) throw_error("[{}] {} inputs given, 1 expected", op.op, op.inputs.size());
  const int64_t dim = op.attrs.integer(name);
  if (dim < 0 || dim >= op.shape(0).rank())
    throw_error("[{}] {} {} of a tensor {} does not exist", op.op, name, dim, to_string(op.shape(0)));
  return static_cast<int>(dim);
}

// The type is that of the input but for the extents along one or two dims, and nothing may be split again.
IndexRule resized(const OpInstance& op, const Shape& shape) {
  if (const int64_t ways = op.attrs.integer("ways"), at = op.attrs.integer("coordinate");
      at < 0 || at >= ways)
    throw_error("[{}] rank {} of {} along {} does not exist", op.op, at, ways, op.attrs.text("axis"));
  IndexRule result;
  result.inputs.resize(1);
  result.outputs.resize(1);
  for (int d = 0; d < shape.rank(); ++d) {
    for (const bool output : {false, true}) {
      result.indices.push_back({.name = fmt::format("{}{}", output ? "o" : "i", d),
                                .extent = output ? shape[d] : op.shape(0)[d],
                                .split = Index::Split::kWhole});
      (output ? result.outputs : result.inputs)[0].push_back({static_cast<int>(result.indices.size()) - 1});
    }
  }
  return result;
}

// What this rank has of an extent, by the attributes with this prefix.
int64_t local_extent(const OpInstance& op, const std::string& prefix, int64_t extent) {
  const int64_t unit = op.attrs.integer(prefix + "unit", 1), blocks = op.attrs.integer(prefix + "blocks", 1);
  if (unit < 1 || blocks < 1 || extent % (unit * blocks) != 0)
    throw_error("[{}] an extent of {} is no {} blocks of units of {}", op.op, extent, blocks, unit);
  return blocks * unit *
         part_of(extent / unit / blocks, op.attrs.integer("ways"), op.attrs.integer("coordinate")).size;
}

void expect_extent(const OpInstance& op, int dim, int64_t expected) {
  if (op.shape(0)[dim] != expected)
    throw_error("[{}] dim {} of {} has {} elements on this rank, {} expected", op.op, dim,
                to_string(op.shape(0)), op.shape(0)[dim], expected);
}

IndexRule all_reduce_rule(const OpInstance& op) {
  if (op.inputs.size() != 1) throw_error("[{}] {} inputs given, 1 expected", op.op, op.inputs.size());
  const std::string& reduction = op.attrs.text("reduction");
  if (reduction != "sum" && reduction != "max")
    throw_error("[{}] reduction is '{}'; sum or max expected", op.op, reduction);
  return resized(op, op.shape(0));
}

IndexRule all_gather_rule(const OpInstance& op) {
  const int dim = checked_dim(op, "dim");
  Shape shape = op.shape(0);
  shape.set(dim, op.attrs.integer("extent"));
  expect_extent(op, dim, local_extent(op, "", shape[dim]));
  return resized(op, shape);
}

IndexRule reduce_scatter_rule(const OpInstance& op) {
  const int dim = checked_dim(op, "dim");
  Shape shape = op.shape(0);
  shape.set(dim, local_extent(op, "", shape[dim]));
  return resized(op, shape);
}

IndexRule all_to_all_rule(const OpInstance& op) {
  const int gathered = checked_dim(op, "dim"), cut = checked_dim(op, "to_dim");
  if (gathered == cut) throw_error("[{}] dim and to_dim are both {}", op.op, cut);
  Shape shape = op.shape(0);
  shape.set(gathered, op.attrs.integer("extent"));
  shape.set(cut, local_extent(op, "to_", shape[cut]));
  expect_extent(op, gathered, local_extent(op, "", shape[gathered]));
  return resized(op, shape);
}

}  // namespace

void add_collective(OpTable& table) {
  const auto no_flops = [](const OpInstance&, const IndexRule&) { return 0.0; };
  const auto add = [&](std::string_view name, IndexRule (*index)(const OpInstance&),
                       std::vector<InPlace> in_place) {
    table.add({.name = name,
               .index = index,
               .gradient = kAfterAutodiff,
               .flops = no_flops,
               .in_place = std::move(in_place),
               .scope = OpRecord::Scope::kAxis});
  };
  add("all_reduce", all_reduce_rule, {{0, 0}});
  add("all_gather", all_gather_rule, {});
  add("reduce_scatter", reduce_scatter_rule, {});
  add("all_to_all", all_to_all_rule, {});
}

}  // namespace trireme
