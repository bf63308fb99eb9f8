// Techniques that people know must come out of index rules alone, where they are the best.
#include "trireme/planner/axis_layouts.h"

#include <gtest/gtest.h>

#include "trireme/mesh/cluster_file.h"
#include "trireme/passes/pins.h"
#include "trireme/planner/layout_finder.h"
#include "trireme/planner/search.h"
#include "trireme/run/plan_subject.h"

namespace trireme::planner {
namespace {

using Parameters = std::vector<std::pair<std::string, Placement>>;

Config gpt() {
  Config config;
  config.model.family = "gpt";
  config.model.layers = 1;
  config.model.heads = 8;
  config.model.hidden = 256;
  config.model.vocab = 1024;
  config.model.seq = 128;
  config.train.batch = 1;
  config.train.threads = 1;
  return config;
}

Cluster slow_cluster(int devices, double memory_bytes, double link_bytes_per_second) {
  return parse_cluster(fmt::format(R"(
name = "small"
[[device]]
name = "d"
memory_bytes = {}
bytes_per_second = 1e10
flops_per_second = {{f32 = 1e11}}
[[host]]
device = "d"
devices = {}
inside = "l"
[[link]]
name = "l"
alpha_seconds = 1e-6
bytes_per_second = {}
)",
                                   memory_bytes, devices, link_bytes_per_second),
                       "test");
}

AxisLayouts layouts_of(const Graph& graph, const Cluster& cluster, const AxisQuestion& question) {
  const Mesh mesh({{"tensor", question.ranks}});
  const DeviceMap device_map(mesh, cluster);
  sim::CollectiveTimes times(device_map, sim::CollectiveModel::kClosedForms, {});
  return best_layouts(graph, question, device_map.device(0), times, times.group_class(0, 0));
}

// How a preset has the matrices and filters. What is small lies either way at the same cost.
Parameters large_ones_of(const std::string& preset, int ranks, const Graph& graph) {
  const Plan plan{.mesh = Mesh({{"tensor", ranks}}), .preset = preset};
  const Pins pins = pins_of(plan, graph, SegmentKind::kForwardBackward, Microbatches::kOne);
  Parameters result;
  for (const Value& value : graph.values) {
    if (value.role == Role::kParameter && value.type.shape.rank() > 1)
      result.emplace_back(value.name, pins.states.at(value.name).use[0]);
  }
  return result;
}

Parameters large_ones(const AxisLayouts& found, const Graph& graph) {
  Parameters result;
  for (const auto& [name, placement] : found.parameters) {
    if (graph.type(graph.find(name)).shape.rank() > 1) result.emplace_back(name, placement);
  }
  return result;
}

std::string text(const Parameters& parameters) {
  std::string result;
  for (const auto& [name, placement] : parameters)
    result += fmt::format("{} {}\n", name, to_string({placement}, Mesh({{"tensor", 2}})));
  return result;
}

TEST(AxisLayouts, OfATransformerWithOneRowAreMegatrons) {
  const Graph graph = plan_subject(gpt(), Shape{128}).graph(1);
  const AxisLayouts found = layouts_of(graph, slow_cluster(2, 1e9, 2e9), {.ranks = 2});
  Parameters wanted = large_ones_of("megatron", 2, graph), blocks = large_ones(found, graph);
  // Whether tables of tokens and positions are split rests on more than one row.
  const auto is_table = [](const auto& entry) { return entry.first.starts_with("w"); };
  std::erase_if(wanted, is_table);
  std::erase_if(blocks, is_table);
  EXPECT_EQ(text(blocks), text(wanted));
  EXPECT_EQ(found.least_seconds, found.seconds);
}

TEST(AxisLayouts, WhereNothingTravelsFastNothingIsSplit) {
  const Graph graph = plan_subject(gpt(), Shape{128}).graph(1);
  const AxisLayouts found = layouts_of(graph, slow_cluster(2, 1e9, 1e4), {.ranks = 2});
  for (const auto& [name, placement] : found.parameters)
    EXPECT_EQ(placement.kind, Placement::Kind::kReplicated) << name;
}

// Fully connected layers that have most of the weights, behind convolutions that have most of the work.
Config lenet() {
  Config config;
  config.model.family = "lenet";
  config.model.classes = 10;
  config.train.batch = 64;
  config.train.threads = 1;
  return config;
}

TEST(AxisLayouts, OfConvolutionsBeforeLargeLayersAreHybrid) {
  const Graph graph = plan_subject(lenet(), Shape{1, 28, 28}).graph(64);
  const AxisQuestion question{.ranks = 2, .rows = AxisQuestion::Rows::kShared};
  const AxisLayouts found = layouts_of(graph, slow_cluster(2, 1e9, 1e9), question);
  int split = 0;
  for (const auto& [name, placement] : large_ones(found, graph)) {
    const bool filter = graph.type(graph.find(name)).shape.rank() == 4;
    if (filter) {
      EXPECT_EQ(placement.kind, Placement::Kind::kReplicated) << name;
    }
    split += placement.kind == Placement::Kind::kSplit;
  }
  EXPECT_GE(split, 1);
}

// A step of one row can not be dealt over data, and without presets nobody tells how to split it.
TEST(Search, FindsTensorParallelismByItself) {
  Config config = gpt();
  config.model.layers = 4;
  Subject subject = plan_subject(config, Shape{128});
  const Cluster cluster = slow_cluster(2, 1e9, 2e9);
  const SearchOptions options{.wish = {{"pipe", "1"}}, .effort = 8, .seconds = 1e9};
  const SearchResult taught = search(subject, cluster, options);
  subject.tensor_presets.clear();
  const SearchResult alone = search(subject, cluster, options);
  const Plan& plan = alone.best().plan;
  EXPECT_EQ(to_string(plan.mesh), "tensor:2");
  ASSERT_FALSE(plan.layouts.empty());
  EXPECT_EQ(to_json(parse_plan(to_json(plan), "test")), to_json(plan));
  EXPECT_LE(alone.best().report.step_seconds, 1.05 * taught.best().report.step_seconds);
}

TEST(Search, FindsDataParallelismAndZero) {
  Config config = gpt();
  config.train.batch = 32;
  const Subject subject = plan_subject(config, Shape{128});
  const SearchOptions options{.wish = {{"pipe", "1"}}, .effort = 12, .seconds = 1e9};
  const Found roomy = search(subject, slow_cluster(4, 4e9, 1e9), options).best();
  EXPECT_EQ(roomy.choice.data, 4);
  EXPECT_EQ(roomy.choice.recompute, Recompute::Kind::kNone);
  // States of a whole model take it all, and nothing is left for activations.
  const double states = static_cast<double>(roomy.report.parameters) * 16;
  const Found tight = search(subject, slow_cluster(4, states, 2e8),
                             {.wish = {{"pipe", "1"}, {"tensor", "1"}}, .effort = 12, .seconds = 1e9})
                          .best();
  EXPECT_TRUE(tight.choice.sharing.starts_with("zero")) << to_string(tight.choice);
}

}  // namespace
}  // namespace trireme::planner
