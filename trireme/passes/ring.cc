// Nodes are copied one by one. All ranks have the same nodes before, and so after.
#include "trireme/passes/ring.h"

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/ir/graph_copy.h"
#include "trireme/ir/ring_builder.h"
#include "trireme/ir/verify.h"
#include "trireme/passes/prune.h"

namespace trireme {
namespace {

class RingWriter {
 public:
  RingWriter(const Graph& graph, const Mesh& mesh, std::string_view axis, int rank, const OpTable& ops)
      : graph_(graph), axis_(axis), readers_(graph.readers()), copy_(graph, ops, graph.name) {
    const int number = mesh.axis(std::string(axis));
    members_ = mesh.members(rank, number);
    coordinate_ = mesh.coordinate(rank, number);
  }

  Graph run() {
    copy_.declare_all();
    std::vector<bool> done(graph_.nodes.size());
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (done[n]) continue;
      const Node& node = graph_.nodes[n];
      if (goes_round(node))
        write(node, done);
      else
        copy_.add(node);
    }
    copy_.finish();
    Graph result = copy_.take();
    for (const auto& [value, name] : names_) result.values[value].name = name;
    result = prune(std::move(result));
    debug_verify(result);
    return result;
  }

 private:
  const Node* maker(ValueId value) const {
    const int node = graph_.values[value].node;
    return node < 0 ? nullptr : &graph_.nodes[node];
  }
  bool is_along_axis(const Node* node, CollectiveKind kind) const {
    return node && node->op->collective && node->op->collective->kind == kind &&
           node->attrs.text("axis") == axis_;
  }
  bool is_gathered(ValueId value) const { return is_along_axis(maker(value), CollectiveKind::kAllGather); }

  bool goes_round(const Node& node) const {
    return node.op->ring.make && std::ranges::any_of(node.op->ring.travels, [&](int input) {
             return is_gathered(node.inputs[input]);
           });
  }

  // How a dim is cut; of two such collectives, whether alike.
  struct Cut {
    int64_t dim, unit, blocks;
    friend bool operator==(const Cut&, const Cut&) = default;
  };
  static Cut cut_of(const Node& collective) {
    return {collective.attrs.integer("dim"), collective.attrs.integer("unit", 1),
            collective.attrs.integer("blocks", 1)};
  }

  [[noreturn]] void refuse(const Node& node, std::string_view why) const {
    throw_error(
        "{} can not be computed in a ring along {}: {}; the preset context gathers instead, where layouts of "
        "the plan let it",
        graph_.values[node.outputs[0]].name, axis_, why);
  }

  void write(const Node& node, std::vector<bool>& done) {
    const OpRecord::Ring& form = node.op->ring;
    const Node* gathering = maker(node.inputs[form.travels[0]]);
    std::vector<ValueId> inputs(node.inputs.size());
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (std::ranges::find(form.travels, static_cast<int>(i)) == form.travels.end()) {
        inputs[i] = copy_[input];
        continue;
      }
      if (!is_gathered(input) || cut_of(*maker(input)) != cut_of(*gathering))
        refuse(node, fmt::format("{} is not gathered in the same parts", graph_.values[input].name));
      inputs[i] = copy_[maker(input)->inputs[0]];
    }
    const Cut cut = cut_of(*gathering);
    const int64_t ways = std::ssize(members_),
                  extent = graph_.type(gathering->outputs[0]).shape[static_cast<int>(cut.dim)];
    if (extent % (cut.unit * cut.blocks * ways) != 0)
      refuse(node, fmt::format("parts of {} are not even", graph_.values[gathering->outputs[0]].name));
    std::vector<DType> formats;
    for (const ValueId output : node.outputs) formats.push_back(graph_.type(output).dtype);
    RingBuilder r(copy_.builder(),
                  {.axis = std::string(axis_),
                   .ways = ways,
                   .coordinate = coordinate_,
                   .to = members_[static_cast<size_t>((coordinate_ + 1) % ways)],
                   .from = members_[static_cast<size_t>((coordinate_ + ways - 1) % ways)],
                   .extent = extent,
                   .unit = cut.unit,
                   .blocks = cut.blocks},
                  std::move(inputs), node.attrs, graph_.values[node.outputs[0]].name, std::move(formats));
    const std::vector<ValueId> results = form.make(r);
    for (size_t o = 0; o < results.size(); ++o) {
      ValueId output = node.outputs[o];
      const bool is_sum = std::ranges::find(form.returns, static_cast<int>(o)) != form.returns.end();
      if (is_sum && readers_[output].empty()) continue;  // of frozen weights
      if (is_sum) output = scattered(node, output, cut, done);
      TRIREME_CHECK(copy_.builder().type(results[o]) == graph_.type(output));
      copy_.set(output, results[o]);
      names_.emplace_back(results[o], graph_.values[output].name);
    }
  }

  // What its sum over the axis becomes, and takes that as done.
  ValueId scattered(const Node& node, ValueId output, const Cut& cut, std::vector<bool>& done) const {
    const std::vector<int>& readers = readers_[output];
    const Node* reader = readers.size() == 1 ? &graph_.nodes[readers[0]] : nullptr;
    if (!is_along_axis(reader, CollectiveKind::kReduceScatter) || cut_of(*reader) != cut)
      refuse(node, fmt::format("the sum of {} is not left in parts", graph_.values[output].name));
    done[readers[0]] = true;
    return reader->outputs[0];
  }

  const Graph& graph_;
  const std::string_view axis_;
  const std::vector<std::vector<int>> readers_;
  GraphCopy copy_;
  std::vector<int> members_;  // ranks along the axis
  int coordinate_;
  std::vector<std::pair<ValueId, std::string>> names_;  // results that stand for those of the op
};

}  // namespace

Graph ring(const Graph& graph, const Mesh& mesh, std::string_view axis, int rank, const OpTable& ops) {
  return RingWriter(graph, mesh, axis, rank, ops).run();
}

}  // namespace trireme
