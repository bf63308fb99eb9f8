// Attention whose keys and values go round a ring of eight ranks, against one rank that has all: the graphs
// are those of the passes, each node runs on all ranks before the next, and a shift takes what the rank
// before has.
#include "trireme/passes/ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/ops/case_runner.h"
#include "trireme/base/error.h"
#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"
#include "trireme/passes/partition.h"

namespace trireme::testing {
namespace {

struct Sizes {
  int64_t tokens = 128, ranks = 8, blocks = 4, causal = 1;
  DType dtype = DType::f32;
};

// o and the gradients of q, k and v.
Graph attention_graph(const Sizes& sizes) {
  Builder b(ops(), "step");
  const Shape q{2, sizes.tokens, 2, 3, 16}, k{2, sizes.tokens, 2, 16};
  const ValueId dy = b.input("dy", {sizes.dtype, q}), queries = b.input("q", {sizes.dtype, q}),
                keys = b.input("k", {sizes.dtype, k}), values = b.input("v", {sizes.dtype, k});
  const Attrs attrs{{"causal", sizes.causal}, {"scale", 0.25}};
  const std::vector<ValueId> o = b.node("attention", {queries, keys, values}, attrs, "o");
  const std::vector<ValueId> gradients =
      b.node("attention_grad", {dy, queries, keys, values, o[0], o[1]}, attrs, "dq");
  b.output("o", o[0]);
  b.output("dq", gradients[0]);
  b.output("dk", gradients[1]);
  b.output("dv", gradients[2]);
  return b.take();
}

// This rank's part of dim 1.
RefTensor part_of(const RefTensor& whole, const Layout& layout, const Mesh& mesh, int rank) {
  RefTensor part = RefTensor::zeros(local_shape(whole.shape, layout, mesh, rank), whole.dtype);
  const int64_t inner = whole.shape.elements(2, whole.shape.rank());
  const std::vector<Pieces> pieces = local_pieces(whole.shape, layout, mesh, rank);
  auto to = part.values.begin();
  for (int64_t row = 0; row < whole.shape[0]; ++row) {
    for (const Part& piece : pieces[1])
      to = std::copy_n(whole.values.begin() + (row * whole.shape[1] + piece.begin) * inner,
                       piece.size * inner, to);
  }
  return part;
}

using Values = std::map<ValueId, RefTensor>;

class Ring : public ::testing::Test {
 protected:
  // The results, put on ranks as the graphs have them.
  std::vector<std::map<std::string, RefTensor>> results(const Sizes& sizes,
                                                        const std::map<std::string, RefTensor>& given) {
    const Graph whole = attention_graph(sizes);
    const Mesh mesh({{"context", static_cast<int>(sizes.ranks)}});
    layout_ = normal_form({Placement::split(1, 1, sizes.blocks)}, whole.type(0).shape, mesh);
    Pins pins;
    for (const auto& [name, value] : given) pins.values[name] = layout_;
    for (const Output& output : whole.outputs) pins.outputs[output.name] = layout_;
    const Spread spread = trireme::spread(whole, mesh, pins);
    std::vector<Graph> graphs;
    for (int rank = 0; rank < mesh.ranks(); ++rank)
      graphs.push_back(ring(partition(whole, mesh, pins, spread, rank, ops()), mesh, "context", rank, ops()));
    nodes_.clear();
    for (const Node& node : graphs[0].nodes) ++nodes_[std::string(node.op->name)];

    std::vector<Values> values(graphs.size());
    for (size_t r = 0; r < graphs.size(); ++r) {
      for (const auto& [name, value] : given)
        values[r][graphs[r].find(name)] = part_of(value, layout_, mesh, static_cast<int>(r));
    }
    for (size_t n = 0; n < graphs[0].nodes.size(); ++n) {
      std::vector<RefTensors> made(graphs.size());
      for (size_t r = 0; r < graphs.size(); ++r) {
        const Node& node = graphs[r].nodes[n];
        RefTensors inputs;
        const bool shift = node.op->name == "shift";
        const size_t from = shift ? (r + graphs.size() - 1) % graphs.size() : r;
        EXPECT_TRUE(!shift || node.attrs.integer("from") == static_cast<int64_t>(from));
        for (const ValueId input : node.inputs) inputs.push_back(values[from].at(input));
        made[r] = shift ? inputs
                        : run_kernel(std::string(node.op->name), node.attrs, inputs,
                                     graphs[r].types_of(node.outputs), /*threads=*/1);
      }
      for (size_t r = 0; r < graphs.size(); ++r) {
        for (size_t o = 0; o < made[r].size(); ++o) values[r][graphs[r].nodes[n].outputs[o]] = made[r][o];
      }
    }
    std::vector<std::map<std::string, RefTensor>> found(graphs.size());
    for (size_t r = 0; r < graphs.size(); ++r) {
      for (const Output& output : graphs[r].outputs) found[r][output.name] = values[r].at(output.value);
    }
    return found;
  }

  static std::map<std::string, RefTensor> random_given(const Sizes& sizes) {
    const Graph graph = attention_graph(sizes);
    std::map<std::string, RefTensor> given;
    for (const Value& value : graph.values) {
      if (value.kind != Value::Kind::kInput) continue;
      OpCase one;
      one.inputs = {{value.type.shape, DType::f32, -1, 1}};
      given[value.name] = random_inputs(one, sizes.dtype, given.size())[0];
    }
    return given;
  }

  // On one rank.
  static std::map<std::string, RefTensor> whole_results(const Sizes& sizes,
                                                        const std::map<std::string, RefTensor>& given) {
    const Graph graph = attention_graph(sizes);
    Values values;
    for (const auto& [name, value] : given) values[graph.find(name)] = value;
    for (const Node& node : graph.nodes) {
      RefTensors inputs;
      for (const ValueId input : node.inputs) inputs.push_back(values.at(input));
      const RefTensors made =
          run_kernel(std::string(node.op->name), node.attrs, inputs, graph.types_of(node.outputs), 1);
      for (size_t o = 0; o < made.size(); ++o) values[node.outputs[o]] = made[o];
    }
    std::map<std::string, RefTensor> found;
    for (const Output& output : graph.outputs) found[output.name] = values.at(output.value);
    return found;
  }

  // The largest difference of any rank's part, of the largest number there.
  double difference(const Sizes& sizes) {
    const auto given = random_given(sizes);
    const auto expected = whole_results(sizes, given);
    const auto found = results(sizes, given);
    const Mesh mesh({{"context", static_cast<int>(sizes.ranks)}});
    double worst = 0;
    for (size_t r = 0; r < found.size(); ++r) {
      for (const auto& [name, value] : expected)
        worst = std::max(worst, relative_difference(found[r].at(name),
                                                    part_of(value, layout_, mesh, static_cast<int>(r))));
    }
    return worst;
  }

  Layout layout_;
  std::map<std::string, int> nodes_;  // of the last graphs, by op
};

TEST_F(Ring, HasTheResultsOfOneRank) {
  EXPECT_LE(difference({}), 1e-6);
  EXPECT_LE(difference({.blocks = 1}), 1e-6) << "runs: parts that a rank sees nothing of";
  EXPECT_LE(difference({.causal = 0}), 1e-6);
  EXPECT_LE(difference({.tokens = 96, .ranks = 3, .blocks = 32}), 1e-6);
  EXPECT_LE(difference({.ranks = 2, .blocks = 64}), 1e-6);
}

// Rounded to bf16 once, at the end: as near as one rank's results are to themselves.
TEST_F(Ring, PutsPartsTogetherInF32) {
  EXPECT_LE(difference({.dtype = DType::bf16}), 0x1p-7);
}

// P − 1 times forward keys and values, and backward their gradients too; nothing is gathered.
TEST_F(Ring, PassesPartsOn) {
  const Sizes sizes;
  results(sizes, random_given(sizes));
  EXPECT_EQ(nodes_["shift"], 2 * (sizes.ranks - 1) + 4 * (sizes.ranks - 1));
  EXPECT_EQ(nodes_["attention_part"], sizes.ranks);
  EXPECT_EQ(nodes_["attention_merge"], sizes.ranks - 1);
  EXPECT_EQ(nodes_["attention_part_grad"], sizes.ranks);
  EXPECT_EQ(nodes_["all_gather"] + nodes_["reduce_scatter"], 0);
}

TEST_F(Ring, RefusesPartsThatAreNotEven) {
  const Sizes sizes{.tokens = 100, .blocks = 1};
  EXPECT_THAT([&] { results(sizes, random_given(sizes)); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("are not even")));
}

}  // namespace
}  // namespace trireme::testing
