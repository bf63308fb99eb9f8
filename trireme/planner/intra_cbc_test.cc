// The solver against Cbc, an integer-programming solver that knows nothing of elimination: on random graphs
// too large to try everything, with and without a bound, and on what models ask.
#include <Cbc_C_Interface.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>

#include "trireme/mesh/cluster_file.h"
#include "trireme/planner/axis_layouts.h"
#include "trireme/planner/intra.h"
#include "trireme/run/plan_subject.h"

namespace trireme::planner {
namespace {

constexpr double kForbidden = std::numeric_limits<double>::infinity();

// Columns with their entries, and rows, as Cbc wants them.
struct IntegerProgram {
  std::vector<CoinBigIndex> starts = {0};
  std::vector<int> rows;
  std::vector<double> values, upper, cost, row_lower, row_upper;
  std::vector<bool> whole;  // by column: a whole number

  int add_row(double lower, double upper_bound) {
    row_lower.push_back(lower);
    row_upper.push_back(upper_bound);
    return static_cast<int>(row_lower.size()) - 1;
  }
  void add_column(double price, double most, bool is_whole,
                  const std::vector<std::pair<int, double>>& entries) {
    for (const auto& [row, value] : entries) {
      rows.push_back(row);
      values.push_back(value);
    }
    starts.push_back(static_cast<CoinBigIndex>(rows.size()));
    cost.push_back(price);
    upper.push_back(most);
    whole.push_back(is_whole);
  }
  // The least cost; infinity where there is no solution.
  double solve() const {
    const std::unique_ptr<void, void (*)(void*)> model(Cbc_newModel(), [](void* m) { Cbc_deleteModel(m); });
    const std::vector<double> lower(cost.size(), 0);
    Cbc_loadProblem(model.get(), static_cast<int>(cost.size()), static_cast<int>(row_lower.size()),
                    starts.data(), rows.data(), values.data(), lower.data(), upper.data(), cost.data(),
                    row_lower.data(), row_upper.data());
    for (size_t c = 0; c < cost.size(); ++c) {
      if (whole[c]) Cbc_setInteger(model.get(), static_cast<int>(c));
    }
    Cbc_setParameter(model.get(), "logLevel", "0");
    Cbc_setParameter(model.get(), "allowableGap", "0");
    Cbc_setParameter(model.get(), "ratioGap", "0");
    Cbc_solve(model.get());
    return Cbc_isProvenOptimal(model.get()) ? Cbc_getObjValue(model.get()) : kForbidden;
  }
};

// A variable for each way of a node, of which one is 1; of an edge one for each pair of ways, that add up to
// those of both ends.
double cost_by_cbc(const IntraProblem& problem) {
  IntegerProgram program;
  std::vector<std::vector<std::vector<std::pair<int, double>>>> entries;  // by node and way
  for (const IntraProblem::Node& node : problem.nodes) {
    const int one = program.add_row(1, 1);
    entries.emplace_back(node.cost.size(), std::vector<std::pair<int, double>>{{one, 1.0}});
  }
  if (problem.bound) {
    const int use = program.add_row(-kForbidden, static_cast<double>(*problem.bound));
    for (size_t n = 0; n < problem.nodes.size(); ++n) {
      for (size_t k = 0; k < problem.nodes[n].use.size(); ++k)
        entries[n][k].emplace_back(use, static_cast<double>(problem.nodes[n].use[k]));
    }
  }
  for (const IntraProblem::Edge& edge : problem.edges) {
    std::vector<int> from, to;
    for (auto& way : entries[edge.from]) way.emplace_back(from.emplace_back(program.add_row(0, 0)), -1.0);
    for (auto& way : entries[edge.to]) way.emplace_back(to.emplace_back(program.add_row(0, 0)), -1.0);
    for (size_t i = 0; i < edge.cost.size(); ++i) {
      const bool never = edge.cost[i] == kForbidden;
      program.add_column(never ? 0 : edge.cost[i], never ? 0 : 1, false,
                         {{from[i / to.size()], 1.0}, {to[i % to.size()], 1.0}});
    }
  }
  for (size_t n = 0; n < problem.nodes.size(); ++n) {
    for (size_t k = 0; k < problem.nodes[n].cost.size(); ++k)
      program.add_column(problem.nodes[n].cost[k], 1, true, entries[n][k]);
  }
  return program.solve();
}

void expect_like_cbc(const IntraProblem& problem) {
  const std::optional<IntraSolution> found = solve(problem);
  const double wanted = cost_by_cbc(problem);
  ASSERT_EQ(found.has_value(), wanted < kForbidden);
  if (!found) return;
  EXPECT_NEAR(found->cost, wanted, 1e-6 * (1 + wanted));
  EXPECT_EQ(found->least_cost, found->cost);
}

// Ten to twenty nodes, joined at random: many more choices than can be tried.
IntraProblem larger_problem(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  IntraProblem problem;
  const int nodes = 10 + below(11);
  int64_t least = 0, most = 0;
  for (int n = 0; n < nodes; ++n) {
    IntraProblem::Node& node = problem.nodes.emplace_back();
    for (int k = 2 + below(3); k > 0; --k) {
      node.cost.push_back(below(1000));
      node.use.push_back(below(100));
    }
    least += std::ranges::min(node.use);
    most += std::ranges::max(node.use);
  }
  for (int e = 2 * nodes; e > 0; --e) {
    const int from = below(nodes), to = below(nodes);
    if (from == to) continue;
    IntraProblem::Edge& edge = problem.edges.emplace_back(IntraProblem::Edge{from, to, {}});
    for (size_t i = 0; i < problem.nodes[from].cost.size() * problem.nodes[to].cost.size(); ++i)
      edge.cost.push_back(below(10) == 0 ? kForbidden : below(1000));
  }
  if (seed % 2 == 1) problem.bound = least + (most - least) * (10 + below(50)) / 100;
  return problem;
}

TEST(IntraCbc, AgreesOnRandomGraphs) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    expect_like_cbc(larger_problem(seed));
  }
}

// What a transformer of so many layers asks of an axis of two ranks.
IntraProblem transformer(int layers) {
  Config config;
  config.model.family = "gpt";
  config.model.layers = layers;
  config.model.heads = 8;
  config.model.hidden = 256;
  config.model.vocab = 1024;
  config.model.seq = 128;
  const Graph graph = plan_subject(config, Shape{128}).graph(1);
  const Cluster cluster = read_cluster("a100");
  const Mesh mesh({{"tensor", 2}});
  const DeviceMap device_map(mesh, cluster);
  sim::CollectiveTimes times(device_map, sim::CollectiveModel::kClosedForms, {});
  return axis_problem(graph, {.ranks = 2}, device_map.device(0), times, times.group_class(0, 0));
}

TEST(IntraCbc, AgreesOnATransformer) {
  IntraProblem problem = transformer(1);
  // Seconds are small beside Cbc's tolerances.
  for (IntraProblem::Node& node : problem.nodes)
    for (double& cost : node.cost) cost *= 1e6;
  for (IntraProblem::Edge& edge : problem.edges)
    for (double& cost : edge.cost) cost *= 1e6;
  expect_like_cbc(problem);
}

}  // namespace
}  // namespace trireme::planner
