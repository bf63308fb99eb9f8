// Follows the spread node by node. A value is had in several layouts in the course of a graph; each is made
// once, from the version that is cheapest to change, right before it is first needed.
#include "trireme/passes/partition.h"

#include <algorithm>
#include <map>

#include "trireme/base/error.h"
#include "trireme/ir/builder.h"
#include "trireme/ir/pieces.h"

namespace trireme {
namespace {

struct Version {
  Layout layout;
  ValueId local;
};

class Partitioner {
 public:
  Partitioner(const Graph& graph, const Mesh& mesh, const Pins& pins, const Spread& spread, int rank,
              const OpTable& ops, NamedLayouts* layouts)
      : graph_(graph),
        mesh_(mesh),
        pins_(pins),
        pinned_(graph, mesh, pins),
        spread_(spread),
        rank_(rank),
        b_(ops, graph.name),
        layouts_(layouts) {}

  Graph run() {
    versions_.resize(graph_.values.size());
    for (size_t v = 0; v < graph_.values.size(); ++v) start_value(static_cast<ValueId>(v));
    for (size_t n = 0; n < graph_.nodes.size(); ++n) add_node(static_cast<int>(n));
    for (const Update& update : graph_.updates) {
      b_.update(versions_[update.state][0].local, lying(update.value, pinned_.state(update.state).rest));
    }
    for (const Output& output : graph_.outputs) {
      const auto pinned = pins_.outputs.find(output.name);
      b_.output(output.name,
                lying(output.value, pinned == pins_.outputs.end() ? replicated(mesh_) : pinned->second),
                output.role);
    }
    return b_.take();
  }

 private:
  TensorType local_type(ValueId value, const Layout& layout) const {
    const TensorType& whole = graph_.type(value);
    return {whole.dtype, local_shape(whole.shape, layout, mesh_, rank_)};
  }

  // Whether all ranks have parts of one size. The first has the largest part of everything, the last the
  // smallest.
  bool is_even(ValueId value, const Layout& layout) const {
    const Shape& whole = graph_.type(value).shape;
    return local_shape(whole, layout, mesh_, 0) == local_shape(whole, layout, mesh_, mesh_.ranks() - 1);
  }

  Version noted(const Layout& layout, ValueId local) {
    if (layouts_) (*layouts_)[b_.graph().values[local].name] = layout;
    return {layout, local};
  }

  void start_value(ValueId id) {
    const Value& value = graph_.values[id];
    const Layout& layout = spread_.values[id];
    if (value.kind != Value::Kind::kResult)
      versions_[id] = {noted(layout, b_.declare(value, local_type(id, layout)))};
  }

  void add_node(int index) {
    const Node& node = graph_.nodes[index];
    const NodeSpread& spread = spread_.nodes[index];
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      inputs.push_back(lying(in_use(node.inputs[i]), spread.inputs[i]));
    const std::vector<ValueId> results = b_.copy(graph_, node, inputs, local_attrs(node, spread));
    for (size_t o = 0; o < results.size(); ++o) {
      const ValueId id = node.outputs[o];
      const Layout& layout = spread_.values[id];
      TRIREME_CHECK(b_.type(results[o]) == local_type(id, layout));
      versions_[id] = {noted(layout, results[o])};
      // A pinned value is had as it is pinned from here on.
      if (const Layout* pinned = pinned_.layout(id)) lying(id, *pinned);
      if (const auto home = spread_.homes.find(id); home != spread_.homes.end()) lying(id, home->second);
      if (graph_.values[id].name == pins_.forward_end) drop_gathered();
    }
  }

  // Makes sure that a state is there as the plan wants it used, before any other layout of it is made.
  ValueId in_use(ValueId id) {
    if (pinned_.is_like_state(id)) lying(id, pinned_.state(id).use);
    return id;
  }

  void drop_gathered() {
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      // What is like a state may be made later.
      if (pinned_.is_like_state(static_cast<ValueId>(v)) && !versions_[v].empty()) versions_[v].resize(1);
    }
  }

  Attrs local_attrs(const Node& node, const NodeSpread& spread) const {
    Attrs attrs = node.attrs;
    if (!node.op->localize) return attrs;
    const IndexRule rule = rule_of(graph_, node);
    for (int i = 0; i < std::ssize(rule.indices); ++i) {
      if (std::ranges::find(spread.way, i, &IndexCut::index) == spread.way.end()) continue;
      const Pieces pieces = pieces_under(rule, spread.way, i, mesh_, rank_);
      int64_t size = 0;
      for (const Part& piece : pieces) size += piece.size;
      if (size == rule.indices[i].extent) continue;
      const int64_t begin = pieces.empty() ? 0 : pieces[0].begin;
      if (pieces.size() < 2 || node.op->localizes != OpRecord::Localizes::kPieces) {
        node.op->localize(attrs, rule, i, begin, begin + size);
        continue;
      }
      node.op->localize(attrs, rule, i, begin, pieces[0].end());
      if (tells_position(node, rule, i))
        set_pieces(attrs, IndexRule::dim_of(rule.inputs[0], i), std::ssize(pieces),
                   stride_of(pieces).value());
    }
    return attrs;
  }

  // The value as it lies in `layout`.
  ValueId lying(ValueId id, const Layout& layout) {
    std::vector<Version>& versions = versions_[id];
    if (const auto found = std::ranges::find(versions, layout, &Version::layout); found != versions.end())
      return found->local;
    const TensorType& type = graph_.type(id);
    const Version* from = nullptr;
    std::vector<Change> path;
    double fewest = 0;
    for (const Version& version : versions) {
      const auto way = changes(version.layout, layout, graph_.type(id).shape, mesh_);
      if (!way) continue;
      const double bytes = bytes_sent(*way, type, version.layout, mesh_);
      if (from && bytes >= fewest) continue;
      from = &version;
      path = *way;
      fewest = bytes;
    }
    if (!from) {
      throw_error("{} is {} and nothing leads from there to {}", graph_.values[id].name,
                  to_string(versions.front().layout, mesh_), to_string(layout, mesh_));
    }
    Version now = *from;
    for (const Change& change : path) now = changed(id, now, change);
    versions.push_back(now);
    return now.local;
  }

  Version changed(ValueId id, const Version& from, const Change& change) {
    const Layout layout = after(from.layout, change);
    const Shape shape = local_type(id, layout).shape;
    const Axis& axis = mesh_.axes()[change.axis];
    const int coordinate = mesh_.coordinate(rank_, change.axis);
    // As the axis cuts what the others leave.
    const auto local_split = [&](const Layout& of) {
      return local_placement(graph_.type(id).shape, of, mesh_, rank_, change.axis);
    };
    if (change.kind == Change::Kind::kSlice)
      return noted(layout, sliced(id, from.local, local_split(layout), change, coordinate, shape));
    if (change.kind == Change::Kind::kAddend)
      // A node on the rank that keeps its value too: graphs of all ranks have the same nodes.
      return {layout, b_.op("affine", {from.local}, {{"scale", coordinate == 0 ? 1.0 : 0.0}},
                            name_of(id, "addend", change))};
    Attrs attrs{{"axis", axis.name}, {"ways", int64_t{axis.size}}, {"coordinate", int64_t{coordinate}}};
    const auto describe = [&](const std::string& prefix, const Placement& placement) {
      attrs.set(prefix + "dim", int64_t{placement.dim});
      if (placement.unit != 1) attrs.set(prefix + "unit", placement.unit);
      if (placement.blocks != 1) attrs.set(prefix + "blocks", placement.blocks);
    };
    if (change.from.is_partial())
      attrs.set("reduction", change.from.kind == Placement::Kind::kMax ? "max" : "sum");
    // Where ranks along other axes have parts of other sizes; see bucket.h.
    if (change.from.is_partial() && !is_even(id, from.layout)) attrs.set("uneven", int64_t{1});
    if (change.kind == Change::Kind::kReduceScatter) describe("", local_split(layout));
    if (change.kind == Change::Kind::kAllGather || change.kind == Change::Kind::kAllToAll) {
      describe("", local_split(from.layout));
      attrs.set("extent", shape[change.from.dim]);
    }
    if (change.kind == Change::Kind::kAllToAll) describe("to_", local_split(layout));
    const ValueId local =
        b_.op(name(change.kind), {from.local}, attrs, name_of(id, name(change.kind), change));
    TRIREME_CHECK(b_.shape(local) == shape);
    return noted(layout, local);
  }

  // What a change makes of a value: the value, what happens, and along which axis.
  std::string name_of(ValueId id, std::string_view what, const Change& change) const {
    return fmt::format("{}.{}.{}", graph_.values[id].name, what, mesh_.axes()[change.axis].name);
  }

  // This rank's part of a local version of a value, which `to` cuts; `shape` is that of the part. Where the
  // whole is cut in blocks, ranks may have other numbers of them, but have the same nodes: blocks are a dim
  // for the while.
  ValueId sliced(ValueId id, ValueId local, const Placement& to, const Change& change, int coordinate,
                 const Shape& shape) {
    const Shape from = b_.shape(local);
    const int64_t block = from[to.dim] / to.blocks;
    const Part units = part_of(block / to.unit, mesh_.axes()[change.axis].size, coordinate);
    const auto slice = [&](ValueId of, int dim, std::string_view what) {
      return b_.op("slice", {of},
                   {{"dim", int64_t{dim}}, {"start", units.begin * to.unit}, {"size", units.size * to.unit}},
                   name_of(id, what, change));
    };
    if (change.to.blocks == 1) return slice(local, to.dim, "slice");
    const ValueId blocks = b_.op("reshape", {local},
                                 {{"shape", std::vector<int64_t>{from.elements(0, to.dim) * to.blocks, block,
                                                                 from.elements(to.dim + 1, from.rank())}}},
                                 name_of(id, "blocks", change));
    return b_.op("reshape", {slice(blocks, 1, "slice_of_blocks")},
                 {{"shape", std::vector<int64_t>(shape.begin(), shape.end())}}, name_of(id, "slice", change));
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const Pins& pins_;
  const PinnedValues pinned_;
  const Spread& spread_;
  int rank_;
  Builder b_;
  NamedLayouts* layouts_;  // may be null
  std::vector<std::vector<Version>>
      versions_;  // per value of the whole graph; of a state the first is at rest
};

}  // namespace

Graph partition(const Graph& graph, const Mesh& mesh, const Pins& pins, const Spread& spread, int rank,
                const OpTable& ops, NamedLayouts* layouts) {
  TRIREME_CHECK(rank < mesh.ranks());
  return Partitioner(graph, mesh, pins, spread, rank, ops, layouts).run();
}

}  // namespace trireme
