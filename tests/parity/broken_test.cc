// Mistakes put into the programs of a plan are called bugs, each with the first tensor that it spoils. They
// are of the kinds that parallel training gets wrong: a rule of an op that allows a split it should not, a
// collective that is missing or reduces otherwise, a part left out, an average that forgets its weights. All
// of them in every precision: in 16 bits it is the run held in f32 that sees them.
#include <gmock/gmock.h>

#include <functional>

#include "golden.h"
#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"
#include "trireme/passes/expand.h"
#include "trireme/passes/partition.h"
#include "trireme/passes/pins.h"
#include "trireme/program/build.h"
#include "trireme/train/parity/verify.h"

namespace trireme::parity {
namespace {

using testing::HasSubstr;

struct Mistake {
  const OpRecord* record = nullptr;                                  // in the place of the op's own
  std::function<void(Graph&, int rank)> local = [](Graph&, int) {};  // done to what a rank runs
};

Training make_training(const std::string& name, const std::string& precision, double dropout) {
  const Golden golden = read_golden(name);
  Training training{golden.model, golden.train, golden.optim, golden.shape, {}, {}};
  training.model.options.dropout = dropout;
  training.train.precision = precision;
  for (int64_t step = 0; step < 2; ++step) {
    training.batches.push_back(make_batch(golden, step));
    training.rates.push_back(golden.rates[step]);
  }
  return training;
}

// As ProgramBuilder::part() does it, by the rules of `table`. Gradients are added up in the update and
// collectives stay single nodes, so that a mistake can be put into one.
Program program_of(const Training& t, const Device& device, const RankOptions& ranks, const OpTable& table,
                   const Mistake& mistake) {
  const Mesh& mesh = ranks.plan.mesh;
  const Schedule schedule = schedule_of(t.train, ranks.plan, ranks.rank);
  const std::vector<StepSegment> whole = step_graphs(t.model, t.train, t.optim, t.shape, schedule).segments;
  ProgramBuilder::RankPart part{.step = schedule.step, .evaluation = schedule.evaluation};
  for (StepSegment segment : whole) {
    for (Node& node : segment.graph.nodes) node.op = &table.at(node.op->name);
    const Pins pins = pins_of(ranks.plan, segment.graph, segment.kind, Microbatches::kSeveral);
    const Graph graph = expand(segment.graph, mesh, pins, table);
    segment.graph = optimized(partition(graph, mesh, pins, spread(graph, mesh, pins), ranks.rank, table));
    mistake.local(segment.graph, ranks.rank);
    part.segments.push_back(std::move(segment));
    part.layouts.emplace_back();
    for (const Value& value : graph.values) {
      if (value.kind == Value::Kind::kState)
        part.states[value.name] =
            state_part(value.type.shape, state_layout(pins, value, mesh).rest, mesh, ranks.rank);
    }
  }
  return ProgramBuilder(whole, ranks.plan, schedule.microbatches)
      .assemble(std::move(part), ranks.rank, schedule, workspace_query(device));
}

Result verify_with(Training training, const Plan& plan, const Mistake& mistake) {
  OpTable table;
  for (const std::string& name : ops().names())
    table.add(mistake.record && mistake.record->name == name ? *mistake.record : ops().at(name));
  Reference reference(std::move(training));
  return verify(reference, plan, [&](const Training& t, const Device& device, const RankOptions& ranks) {
    return program_of(t, device, ranks, table, mistake);
  });
}

Plan plan(const std::string& preset, const std::string& mesh) {
  return {.mesh = parse_mesh(mesh), .preset = preset};
}

class Mistakes : public testing::TestWithParam<const char*> {
 protected:
  static Training training_of(const std::string& name, double dropout = 0) {
    return make_training(name, GetParam(), dropout);
  }
};
INSTANTIATE_TEST_SUITE_P(In, Mistakes, testing::Values("f32", "bf16", "f16"),
                         [](const auto& test) { return std::string(test.param); });

void become_copy(Node& node) {
  node.op = &ops().at("affine");
  node.attrs = {{"scale", 1.0}};
}

TEST_P(Mistakes, NoneIsNoBug) {
  const Result result = verify_with(training_of("gpt"), plan("zero2", "data:2"), {});
  EXPECT_EQ(result.verdict, Verdict::kRounding) << result.reason;
}

// Statistics of a part of the batch, taken for addends of those of the batch.
TEST_P(Mistakes, BatchNormThatMayBeSplitByRows) {
  OpRecord record = ops().at("batch_norm");
  record.expand = nullptr;  // which would do it right
  record.index = [](const OpInstance& op) {
    IndexRule rule = ops().at("batch_norm").index(op);
    for (Index& index : rule.indices) index.split = Index::Split::kAllowed;
    return rule;
  };
  const Result result = verify_with(training_of("resnet20"), plan("data", "data:2"), {.record = &record});
  EXPECT_EQ(result.verdict, Verdict::kBug);
}

TEST_P(Mistakes, PartialProductsAreMaxed) {
  OpRecord record = ops().at("matmul");
  record.index = [](const OpInstance& op) {
    IndexRule rule = ops().at("matmul").index(op);
    for (Index& index : rule.indices) {
      if (index.name == "k") index.combine = Index::Combine::kMax;
    }
    return rule;
  };
  const Result result = verify_with(training_of("gpt"), plan("megatron", "tensor:2"), {.record = &record});
  EXPECT_EQ(result.verdict, Verdict::kBug);
  EXPECT_THAT(result.reason, HasSubstr("accumulated.loss"));
}

// All ranks draw the numbers of the first rows.
TEST_P(Mistakes, DropoutThatDoesNotKnowItsPlace) {
  OpRecord record = ops().at("dropout");
  record.localize = nullptr;
  EXPECT_EQ(verify_with(training_of("gpt", 0.1), plan("data", "data:2"), {}).verdict, Verdict::kRounding);
  const Result result = verify_with(training_of("gpt", 0.1), plan("data", "data:2"), {.record = &record});
  EXPECT_EQ(result.verdict, Verdict::kBug);
}

TEST_P(Mistakes, MissingAllReduce) {
  const Mistake mistake{.local = [](Graph& graph, int) {
    for (Node& node : graph.nodes) {
      if (graph.values[node.outputs[0]].name.starts_with("grad.ln_f.weight.all_reduce")) become_copy(node);
    }
  }};
  const Result result = verify_with(training_of("gpt"), plan("data", "data:2"), mistake);
  EXPECT_EQ(result.verdict, Verdict::kBug);
  EXPECT_THAT(result.reason, HasSubstr("ranks that should have the same have not"));
}

TEST_P(Mistakes, ReductionOfOneTensorReplaced) {
  const Mistake mistake{.local = [](Graph& graph, int) {
    for (Node& node : graph.nodes) {
      if (graph.values[node.outputs[0]].name.starts_with("grad.h.1.ln_2.bias.reduce_scatter"))
        node.attrs.set("reduction", "max");
    }
  }};
  const Result result = verify_with(training_of("gpt"), plan("zero1", "data:2"), mistake);
  EXPECT_EQ(result.verdict, Verdict::kBug);
  EXPECT_THAT(result.reason, HasSubstr("update: "));
  EXPECT_THAT(result.reason, HasSubstr("h.1.ln_2.bias"));
}

// Puts `change` of a gradient in its place on one rank.
Mistake gradient_becomes(const std::string& name, const std::function<ValueId(Builder&, ValueId)>& change) {
  return {.local = [=](Graph& graph, int rank) {
    if (rank != 1 || graph.name != "first") return;
    Builder b(ops(), std::move(graph));
    const ValueId state = b.graph().find(name);
    ASSERT_NE(state, kNoValue);
    ValueId gradient = kNoValue;
    for (const Update& update : b.graph().updates) {
      if (update.state == state) gradient = update.value;
    }
    const ValueId changed = change(b, gradient);
    graph = b.take();
    for (Update& update : graph.updates) {
      if (update.state == state) update.value = changed;
    }
  }};
}

Mistake gradient_times(const std::string& name, double factor) {
  return gradient_becomes(name, [factor](Builder& b, ValueId gradient) {
    return b.op("affine", {gradient}, {{"scale", factor}});
  });
}

// One rank's gradient of one tensor is not in the sum.
TEST_P(Mistakes, GradientLacksAPart) {
  const Result result = verify_with(training_of("gpt"), plan("data", "data:3"),
                                    gradient_times("grad.h.0.mlp.c_fc.weight", 0.0));
  EXPECT_EQ(result.verdict, Verdict::kBug);
  EXPECT_THAT(result.reason, HasSubstr("step 1, forward and backward: grad.h.0.mlp.c_fc.weight is"));
}

TEST_P(Mistakes, GradientOfOneRankOffByAThousandth) {
  const Training training = training_of("gpt");
  for (const char* name :
       {"grad.wte.weight", "grad.h.0.attn.c_attn.weight", "grad.h.1.mlp.c_proj.bias", "grad.ln_f.weight"}) {
    const Result result = verify_with(training, plan("data", "data:2"), gradient_times(name, 1.001));
    EXPECT_EQ(result.verdict, Verdict::kBug) << name << ", worst " << result.worst;
    EXPECT_THAT(result.reason, HasSubstr(name));
  }
}

// The rounding of the large rows of a tensor does not excuse a mistake in its smallest.
TEST_P(Mistakes, SmallestRowOffByLittle) {
  const Training training = training_of("gpt");
  const std::vector<float> gradient = Reference(training).record()[0].left.at("grad.wte.weight");
  const int64_t width = training.model.options.hidden, rows = training.model.options.vocab;
  std::vector<float> largest(rows);
  for (int64_t i = 0; i < rows * width; ++i)
    largest[i / width] = std::max(largest[i / width], std::abs(gradient[i]));
  const int64_t smallest = std::ranges::min_element(largest) - largest.begin();
  ASSERT_GT(smallest, 0);
  ASSERT_LT(smallest, rows - 1);
  ASSERT_GT(largest[smallest], 0);
  const auto change_row = [&](Builder& b, ValueId value) {
    const auto part = [&](int64_t start, int64_t size) {
      return b.op("slice", {value}, {{"dim", int64_t{0}}, {"start", start}, {"size", size}});
    };
    const ValueId row = b.op("affine", {part(smallest, 1)}, {{"scale", 1.0002}});
    return b.op("concat", {part(0, smallest), row, part(smallest + 1, rows - smallest - 1)},
                {{"dim", int64_t{0}}});
  };
  const Result result =
      verify_with(training, plan("data", "data:2"), gradient_becomes("grad.wte.weight", change_row));
  EXPECT_EQ(result.verdict, Verdict::kBug) << "worst " << result.worst;
  EXPECT_THAT(result.reason, HasSubstr("grad.wte.weight"));
}

// Every rank takes the mean over its own targets for as good as any other's. Right only if all have as many.
TEST_P(Mistakes, AverageWithoutWeights) {
  const auto scale_count = [](double ranks) {
    return Mistake{.local = [ranks](Graph& graph, int) {
      for (Node& node : graph.nodes) {
        if (!graph.values[node.outputs[0]].name.starts_with("accumulated.count.all_reduce")) continue;
        become_copy(node);
        node.attrs.set("scale", ranks);
      }
    }};
  };
  EXPECT_EQ(verify_with(training_of("gpt"), plan("data", "data:2"), scale_count(2)).verdict,
            Verdict::kRounding);
  EXPECT_EQ(verify_with(training_of("gpt_ignored"), plan("data", "data:2"), scale_count(2)).verdict,
            Verdict::kBug);
}

// The norm of a rank's own part in the place of the whole gradient's.
TEST_P(Mistakes, ClippingByTheOwnPart) {
  const Mistake mistake{.local = [](Graph& graph, int) {
    if (graph.name != "update") return;
    for (Node& node : graph.nodes) {
      const bool scalar = graph.type(node.outputs[0]).shape.rank() == 0;
      const std::string& name = graph.values[node.outputs[0]].name;
      if (node.op->name == "all_reduce" && scalar && !name.starts_with("accumulated.")) become_copy(node);
    }
  }};
  EXPECT_EQ(verify_with(training_of("gpt"), plan("zero2", "data:2"), mistake).verdict, Verdict::kBug);
}

// Sharp: whichever value of one rank's program is off by a hundredth, it is seen.
TEST_P(Mistakes, AnyValueOffByAHundredth) {
  const Training training = training_of("mlp");
  int nodes = 0;
  const auto count = [&](Graph& graph, int rank) {
    if (rank == 1 && graph.name != "evaluate") nodes += static_cast<int>(graph.nodes.size());
  };
  verify_with(training, plan("zero1", "data:2"), {.local = count});
  ASSERT_GT(nodes, 30);
  for (int victim = 0; victim < nodes; ++victim) {
    int before = 0;
    std::string what;
    const Mistake mistake{.local = [&](Graph& graph, int rank) {
      if (rank != 1 || graph.name == "evaluate") return;
      const int index = victim - before;
      before += static_cast<int>(graph.nodes.size());
      if (index < 0 || index >= static_cast<int>(graph.nodes.size())) return;
      const Node& node = graph.nodes[index];
      const Value& value = graph.values[node.outputs[0]];
      if (!is_float(value.type.dtype)) return;
      what = fmt::format("{} makes {}", node.op->name, value.name);
      // What reads it, reads 1.01 times it instead.
      Graph changed = graph;
      const ValueId other = static_cast<ValueId>(changed.values.size());
      changed.values.push_back(value);
      changed.values.back().name = "moved";
      for (size_t n = index + 1; n < changed.nodes.size(); ++n)
        std::ranges::replace(changed.nodes[n].inputs, node.outputs[0], other);
      for (Update& update : changed.updates) {
        if (update.value == node.outputs[0]) update.value = other;
      }
      for (Output& output : changed.outputs) {
        if (output.value == node.outputs[0]) output.value = other;
      }
      changed.nodes.insert(changed.nodes.begin() + index + 1,
                           Node{&ops().at("affine"), {node.outputs[0]}, {other}, {{"scale", 1.01}}});
      for (int n = index + 1; n < static_cast<int>(changed.nodes.size()); ++n) {
        for (const ValueId made : changed.nodes[n].outputs) changed.values[made].node = n;
      }
      graph = std::move(changed);
    }};
    const Result result = verify_with(training, plan("zero1", "data:2"), mistake);
    if (what.empty()) continue;
    EXPECT_EQ(result.verdict, Verdict::kBug) << what << ", worst " << result.worst;
  }
}

}  // namespace
}  // namespace trireme::parity
