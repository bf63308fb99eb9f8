// Mixtures of experts: the published sizes, slots, what settings are refused; and a whole layer, its losses
// and all gradients, against the same written out in double precision. Choices and slots are taken from the
// layer: how they are made has cases of its own (bench/cases/expert_cases.cc).
#include "trireme/models/experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "trireme/base/rng.h"
#include "trireme/ops/table.h"
#include "trireme/passes/autodiff.h"
#include "trireme/passes/substitute.h"
#include "trireme/runtime/executor.h"
#include "trireme/train/step.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ModelOptions mixtral(int64_t layers, int64_t hidden, int64_t heads, int64_t inner) {
  ModelOptions model;
  model.family = "llama";
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.kv_heads = 8;
  model.feed_forward = inner;
  model.vocab = 32000;
  model.moe.experts = 8;
  return model;
}

ParameterCounts counts_of(const ModelOptions& model) {
  return count_parameters(forward_graph(model, {1, {16}}, DType::f32));
}

TEST(Experts, MixtralHasThePublishedSizes) {
  const ParameterCounts small = counts_of(mixtral(32, 4096, 32, 14336));
  EXPECT_EQ(small.total, 46'702'792'704);
  EXPECT_EQ(small.active, 12'879'925'248);
  const ParameterCounts large = counts_of(mixtral(56, 6144, 48, 16384));
  EXPECT_EQ(large.total, 140'620'634'112);
  EXPECT_EQ(large.active, 39'152'031'744);
}

TEST(Experts, EverySoManyLayersAndSharedOnes) {
  ModelOptions model = mixtral(4, 32, 8, 48);
  const auto layers_with_router = [&] {
    std::vector<int> layers;
    const Graph graph = forward_graph(model, {1, {16}}, DType::f32);
    for (int layer = 0; layer < 4; ++layer) {
      if (graph.find(fmt::format("model.layers.{}.mlp.gate.weight", layer)) != kNoValue)
        layers.push_back(layer);
    }
    return layers;
  };
  EXPECT_THAT(layers_with_router(), ElementsAre(0, 1, 2, 3));
  const ParameterCounts all = counts_of(model);
  model.moe.every = 2;
  EXPECT_THAT(layers_with_router(), ElementsAre(1, 3));
  model.moe.every = 1;
  model.moe.shared = 2;
  model.moe.hidden = 48;
  EXPECT_EQ(counts_of(model).total - all.total, 4 * 3 * 32 * 2 * 48);
  EXPECT_EQ(counts_of(model).active - all.active, 4 * 3 * 32 * 2 * 48);
}

// Narrow models too: else all tokens change experts together in the first steps (docs/experts.md).
TEST(Experts, FirstLogitsAreAsFarApartWhateverTheWidth) {
  for (const char* family : {"gpt", "llama"}) {
    for (const int64_t hidden : {64, 1024}) {
      ModelOptions model = mixtral(1, hidden, 8, 24);
      model.family = family;
      model.vocab = 40;
      const Graph graph = forward_graph(model, {1, {16}}, DType::f32);
      const std::string router =
          model.family == "gpt" ? "h.0.mlp.router.weight" : "model.layers.0.mlp.gate.weight";
      const ValueId weight = graph.find(router);
      ASSERT_NE(weight, kNoValue) << router;
      EXPECT_NEAR(graph.values[weight].attrs.real("scale"), 2 / std::sqrt(static_cast<double>(hidden)),
                  1e-12);
    }
  }
}

TEST(Experts, SlotsFollowTheGate) {
  const auto slots = [](const char* gate, double capacity, int64_t experts, int64_t tokens) {
    return expert_capacity(sizes_of({.experts = experts, .gate = gate, .capacity = capacity}, 64), tokens);
  };
  EXPECT_EQ(slots("gshard", -1, 8, 1024), 256);
  EXPECT_EQ(slots("gshard", 1, 8, 50), 8);  // 6, up to a multiple of 4
  EXPECT_EQ(slots("gshard", 1, 64, 64), 4);
  EXPECT_EQ(slots("switch", -1, 8, 1024), 160);
  EXPECT_EQ(slots("switch", 1, 8, 12), 1);
  EXPECT_EQ(slots("mixtral", -1, 8, 100), 100);  // dropless
  EXPECT_EQ(slots("mixtral", 1, 8, 100), 25);
  EXPECT_EQ(slots("mixtral", 1.1, 10, 50), 11);  // 11 but for rounding
  EXPECT_EQ(slots("mixtral", 100, 8, 100), 100);
  EXPECT_EQ(slots("deepseek_v3", 1, 16, 33), 17);  // 16.5
}

TEST(Experts, SettingsThatDoNotGoTogetherAreRefused) {
  const auto problems = [](auto change) {
    ModelOptions model = mixtral(4, 32, 8, 48);
    change(model);
    return expert_problems(model);
  };
  EXPECT_THAT(problems([](ModelOptions&) {}), IsEmpty());
  EXPECT_THAT(problems([](ModelOptions& m) { m.moe.gate = "expert_choice"; }),
              ElementsAre(HasSubstr("would see what it is to predict")));
  EXPECT_THAT(problems([](ModelOptions& m) { m.moe.top_k = 9; }), ElementsAre(HasSubstr("top_k = 9")));
  EXPECT_THAT(problems([](ModelOptions& m) { m.moe.gate = "switch", m.moe.top_k = 2; }),
              ElementsAre(HasSubstr("the gate switch chooses 1")));
  EXPECT_THAT(problems([](ModelOptions& m) { m.moe.gate = "gshard", m.moe.top_k = 1; }),
              ElementsAre(HasSubstr("the gate gshard chooses 2")));
  EXPECT_THAT(problems([](ModelOptions& m) { m.moe.groups = 3; }),
              ElementsAre(HasSubstr("cannot be split evenly into model.moe.groups = 3")));
  EXPECT_THAT(problems([](ModelOptions& m) { m.moe.every = 5; }),
              ElementsAre(HasSubstr("no layer has experts")));
  EXPECT_THAT(problems([](ModelOptions& m) { m.moe.expert_groups = 3; }),
              ElementsAre(HasSubstr("model.moe.expert_groups = 3")));
  EXPECT_THAT(problems([](ModelOptions& m) { m.moe.expert_groups = 8, m.moe.top_groups = 1; }),
              ElementsAre(HasSubstr("more top_groups")));
  EXPECT_THAT(problems([](ModelOptions& m) { m.lora.rank = 2; }), ElementsAre(HasSubstr("adapters")));
}

// Slots are scarce, and still no token changes what those before it give.
TEST(Experts, NoTokenSeesALaterOne) {
  for (const char* gate : {"gshard", "switch", "mixtral", "deepseek_v3"}) {
    ModelOptions model = mixtral(2, 32, 8, 24);
    model.vocab = 40;
    model.seq = 24;
    model.moe.experts = 4;
    model.moe.top_k = std::string(gate) == "switch" ? 1 : 2;
    model.moe.gate = gate;
    model.moe.capacity = 0.5;
    const auto device = make_cpu_device(1);
    Executor executor(build_program({forward_graph(model, {1, {24}}, DType::f32)}, workspace_query(*device)),
                      *device);
    initialise_states(executor, 7);
    const auto logits = [&](const std::vector<int32_t>& ids) {
      executor.set_input(0, "ids", ids.data(), ids.size() * sizeof(int32_t));
      executor.run(0);
      std::vector<float> values(24 * 40);
      executor.read_output(0, "logits", values.data(), values.size() * sizeof(float));
      return values;
    };
    std::vector<int32_t> ids(24);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7 % 40);
    const std::vector<float> before = logits(ids);
    for (size_t i = 9; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 11 % 37);
    const std::vector<float> after = logits(ids);
    EXPECT_TRUE(std::equal(before.begin(), before.begin() + 9 * 40, after.begin())) << gate;
    EXPECT_FALSE(std::equal(before.begin() + 9 * 40, before.end(), after.begin() + 9 * 40)) << gate;
  }
}

// FLOPs of a layer without drops are those of its k experts, whatever the number of slots.
TEST(Experts, FlopsAreThoseOfChosenExperts) {
  const auto flops = [](int64_t experts, double capacity) {
    ModelOptions model = mixtral(2, 32, 8, 24);
    model.moe.experts = experts;
    model.moe.capacity = capacity;
    double total = 0;
    const Graph graph = forward_graph(model, {1, {64}}, DType::f32);
    for (const Node& node : graph.nodes) {
      if (node.op->name == std::string_view("matmul_slots")) total += cost_of(graph, node).flops;
    }
    return total;
  };
  const double expected = 2.0 * 2 * 3 * 64 * 2 * 32 * 24;  // layers, weights, tokens, k
  EXPECT_EQ(flops(8, 0), expected);
  EXPECT_EQ(flops(32, 0), expected);
  EXPECT_EQ(flops(8, 0.5), expected / 2);  // as many slots as half of the choices
}

// One layer of the llama family and the sum of its results times fixed numbers, with its losses.
class Layer {
 public:
  Layer(const ModelOptions& options, int64_t rows) : options_(options) {
    Builder b(ops(), "layer");
    Network net(b, Mode::kTrain, 0);
    const ValueId x = b.input("x", {DType::f32, {rows, options.seq, options.hidden}});
    const ValueId r = b.input("r", b.type(x));
    const ValueId y = mixture_of_experts(net, options, x, "mlp", style());
    const ValueId loss = net.op("sum", {net.op("mul", {y, r})}, {{"dims", std::vector<int64_t>{0, 1, 2}}});
    const ValueId seed = b.input("seed", {DType::f32, {}});
    std::vector<ValueId> losses = {loss};
    for (const Network::Tally& tally : net.tallies()) {
      if (tally.role == OutputRole::kObjective) losses.push_back(tally.value);
    }
    std::vector<ValueId> wanted = {x};
    for (ValueId parameter : net.parameters()) wanted.push_back(parameter);
    for (ValueId id : wanted) names_.push_back(b.graph().values[id].name);
    const std::vector<ValueId> gradients = differentiate(b, losses, seed, wanted).gradients;
    for (size_t i = 0; i < wanted.size(); ++i) b.output("d." + names_[i], gradients[i]);
    b.output("loss", loss);
    b.output("balance", losses[1]);
    b.output("y", y);
    for (const Node& node : b.graph().nodes) {
      if (node.op->name == "route") b.output("id", node.outputs[1]);
      if (node.op->name != "slots") continue;
      b.output("at", node.outputs[0]);
      b.output("count", node.outputs[1]);
    }
    executor_.emplace(build_program({b.take()}, workspace_query(*device_)), *device_);
    const auto draw = [](const std::string& name, int64_t count, double scale) {
      std::vector<float> values(static_cast<size_t>(count));
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(scale * (2 * uniform({9, stream_id(name)}, i) - 1));
      return values;
    };
    for (const Value& value : executor_->program().segments[0].graph.values) {
      const int64_t count = value.type.shape.elements();
      if (value.kind == Value::Kind::kState) {
        const std::vector<float> numbers = draw(value.name, count, 0.7);
        executor_->write_state(value.name, numbers.data(), numbers.size() * sizeof(float));
        values_[value.name] = {numbers.begin(), numbers.end()};
      } else if (value.name == "x" || value.name == "r") {
        const std::vector<float> numbers = draw(value.name, count, 1);
        executor_->set_input(0, value.name, numbers.data(), numbers.size() * sizeof(float));
        values_[value.name] = {numbers.begin(), numbers.end()};
      } else if (value.role == Role::kRng) {
        const int64_t key[2] = {3, 5};
        executor_->set_input(0, value.name, key, sizeof key);
      }
    }
    const float one = 1;
    executor_->set_input(0, "seed", &one, sizeof one);
    executor_->run(0);
    id_ = read<int32_t>("id");
    at_ = read<int32_t>("at");
    count_ = read<int32_t>("count");
  }

  static ExpertStyle style() {
    return {.store = Network::Store::kOutIn,
            .router = "gate",
            .bias = "gate.bias",
            .experts = "experts",
            .shared = "shared",
            .up = {"gate_proj", "up_proj"},
            .down = "down_proj",
            .deviation = 0.1,
            .residual_deviation = 0.1,
            .activate =
                [](Network& net, const std::vector<ValueId>& x) {
                  return net.op("mul", {net.op("silu", {x[0]}), x[1]});
                },
            .dense = nullptr};
  }

  template <typename T>
  std::vector<T> read(const std::string& output) {
    const Graph& graph = executor_->program().segments[0].graph;
    for (const Output& one : graph.outputs) {
      if (one.name != output) continue;
      std::vector<T> values(static_cast<size_t>(graph.type(one.value).shape.elements()));
      executor_->read_output(0, output, values.data(), values.size() * sizeof(T));
      return values;
    }
    ADD_FAILURE() << "no output " << output;
    return {};
  }
  const std::vector<std::string>& names() const { return names_; }
  std::vector<double>& values(const std::string& name) { return values_.at(name); }
  bool drops() const { return std::ranges::find(at_, -1) != at_.end(); }

  // The loss of the experts, and the balance loss, of the values as they are now.
  struct Losses {
    double result = 0, balance = 0;
  };
  Losses losses() const {
    const MoeOptions& moe = options_.moe;
    const Gate& gate = find_gate(moe.gate);
    const int64_t e_count = moe.experts, m = options_.hidden, h = moe.hidden, k = moe.top_k;
    const int64_t tokens = std::ssize(values_.at("x")) / m, in_group = options_.seq / moe.groups;
    const int64_t capacity = expert_capacity(moe, in_group);
    const auto& x = values_.at("x");
    const auto weight = [&](const char* name) -> const std::vector<double>& {
      return values_.at(fmt::format("mlp.{}.weight", name));
    };
    const auto &router = weight("gate"), &w1 = weight("experts.gate_proj"), &w3 = weight("experts.up_proj"),
               &w2 = weight("experts.down_proj");
    Losses losses;
    std::vector<double> share_sums(static_cast<size_t>(e_count));
    for (int64_t t = 0; t < tokens; ++t) {
      std::vector<double> scores(static_cast<size_t>(e_count));
      double lse = 0, total = 0;
      for (int64_t e = 0; e < e_count; ++e) {
        double z = 0;
        for (int64_t i = 0; i < m; ++i) z += x[t * m + i] * router[e * m + i];
        scores[e] = gate.scores == "sigmoid" ? 1 / (1 + std::exp(-z)) : std::exp(z);
        total += scores[e];
        lse += std::exp(z);
      }
      losses.balance += moe.z_loss * std::log(lse) * std::log(lse);
      for (int64_t e = 0; e < e_count; ++e) share_sums[e] += scores[e] / total;
      double chosen = 0;
      for (int64_t n = 0; n < k; ++n) chosen += scores[id_[t * k + n]];
      for (int64_t n = 0; n < k; ++n) {
        const int64_t e = id_[t * k + n];
        if (at_[t * k + n] < 0) continue;
        EXPECT_EQ(at_[t * k + n] / capacity, e);
        const double w = options_.moe.scale * scores[e] / (gate.normalise ? chosen : total);
        for (int64_t j = 0; j < h; ++j) {
          double g = 0, u = 0, back = 0;
          for (int64_t i = 0; i < m; ++i) {
            g += x[t * m + i] * w1[(e * h + j) * m + i];
            u += x[t * m + i] * w3[(e * h + j) * m + i];
            back += values_.at("r")[t * m + i] * w2[(e * m + i) * h + j];
          }
          losses.result += w * g / (1 + std::exp(-g)) * u * back;
        }
      }
      if ((t + 1) % in_group != 0) continue;
      const int64_t group = t / in_group, choices = gate.balanced_choices > 0 ? gate.balanced_choices : k;
      for (int64_t e = 0; e < e_count; ++e) {
        double f = 0;
        for (int64_t n = 0; n < choices; ++n) f += count_[(group * k + n) * e_count + e];
        losses.balance += moe.balance * static_cast<double>(e_count) * f /
                          static_cast<double>(choices * in_group) * share_sums[e];
        share_sums[e] = 0;
      }
    }
    return losses;
  }

 private:
  ModelOptions options_;
  std::unique_ptr<Device> device_ = make_cpu_device(2);
  std::optional<Executor> executor_;
  std::vector<std::string> names_;
  std::map<std::string, std::vector<double>> values_;
  std::vector<int32_t> id_, at_, count_;
};

void expect_gradients(const MoeOptions& moe, bool drops) {
  ModelOptions options;
  options.hidden = 6;
  options.seq = 12;
  options.moe = moe;
  options.moe.experts = 4;
  options.moe.hidden = 5;
  options.moe.z_loss = 0.01;
  options.moe.balance = 0.3;
  options.moe = sizes_of(options.moe, 0);
  Layer layer(options, 3);
  EXPECT_EQ(layer.drops(), drops);
  const Layer::Losses losses = layer.losses();
  EXPECT_NEAR(layer.read<float>("loss")[0], losses.result, 1e-5 * std::abs(losses.result) + 1e-5);
  EXPECT_NEAR(layer.read<float>("balance")[0], losses.balance, 1e-5 * std::abs(losses.balance));
  constexpr double kStep = 1e-5;
  for (const std::string& name : layer.names()) {
    const std::vector<float> gradient = layer.read<float>("d." + name);
    std::vector<double>& values = layer.values(name);
    double largest = 1e-3;
    for (const float one : gradient) largest = std::max(largest, std::abs(static_cast<double>(one)));
    for (size_t i = 0; i < values.size(); i += std::max<size_t>(1, values.size() / 40)) {
      const double value = values[i];
      const auto at = [&](double moved) {
        values[i] = moved;
        const Layer::Losses there = layer.losses();
        return there.result + there.balance;
      };
      const double difference = (at(value + kStep) - at(value - kStep)) / (2 * kStep);
      values[i] = value;
      EXPECT_NEAR(gradient[i], difference, 2e-5 * largest) << "element " << i << " of " << name;
    }
  }
}

// A layer and its gradients with slots left out that have no token, and with all of them computed, as on a
// GPU: the same bits, in less time.
TEST(Experts, SlotsWithoutATokenChangeNoBits) {
  for (const double capacity : {0.0, 1.0}) {
    ModelOptions model;
    model.hidden = 32;
    model.seq = 40;
    model.moe = sizes_of({.experts = 8, .gate = "mixtral", .capacity = capacity}, 24);
    Builder layer(ops(), "layer");
    Network net(layer, Mode::kTrain, 0);
    const ValueId x = layer.input("x", {DType::f32, {3, 40, 32}});
    const ValueId y = mixture_of_experts(net, model, x, "mlp", Layer::style());
    layer.output("y", y);
    layer.output("loss", net.op("sum", {net.op("mul", {y, y})}, {{"dims", std::vector<int64_t>{0, 1, 2}}}));
    const Graph skips = layer.take();
    const Graph computes_all = with_substitutes(skips, ops(), [](const Node&) { return false; });
    const auto count = [](const Graph& graph, std::string_view op) {
      return std::ranges::count(graph.nodes, op, [](const Node& node) { return node.op->name; });
    };
    EXPECT_EQ(count(skips, "matmul_slots"), 3);
    EXPECT_EQ(count(computes_all, "matmul_slots") + count(computes_all, "slots_used"), 0);
    const auto results = [](const Graph& graph) {
      Builder b(ops(), graph);
      std::vector<ValueId> wanted = {b.find("x")};
      for (const Value& value : graph.values) {
        if (value.role == Role::kParameter) wanted.push_back(b.find(value.name));
      }
      const ValueId seed = b.input("seed", {DType::f32, {}});
      const std::vector<ValueId> gradients =
          differentiate(b, {graph.outputs.at(1).value}, seed, wanted).gradients;
      for (size_t i = 0; i < wanted.size(); ++i) b.output(fmt::format("d{}", i), gradients[i]);
      const auto device = make_cpu_device(2);
      Executor executor(build_program({b.take()}, workspace_query(*device)), *device);
      initialise_states(executor, 7);
      std::vector<float> numbers(3 * 40 * 32);
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(uniform({5, 6}, i)) - 0.5f;
      executor.set_input(0, "x", numbers.data(), numbers.size() * sizeof(float));
      const float one = 1;
      executor.set_input(0, "seed", &one, sizeof one);
      executor.run(0);
      std::vector<std::vector<float>> all;
      const Graph& whole = executor.program().segments[0].graph;
      for (const Output& output : whole.outputs) {
        std::vector<float>& values =
            all.emplace_back(static_cast<size_t>(whole.type(output.value).shape.elements()));
        executor.read_output(0, output.name, values.data(), values.size() * sizeof(float));
      }
      return all;
    };
    EXPECT_EQ(results(skips), results(computes_all));
  }
}

TEST(Experts, GradientsOfGshard) {
  expect_gradients({.gate = "gshard", .capacity = 1}, true);
}
TEST(Experts, GradientsOfSwitch) {
  expect_gradients({.gate = "switch", .capacity = 1.25}, true);
}
TEST(Experts, GradientsOfMixtral) {
  expect_gradients({.gate = "mixtral"}, false);
  expect_gradients({.gate = "mixtral", .scale = 2}, false);
}
TEST(Experts, GradientsOfDeepSeek) {
  expect_gradients({.top_k = 2, .gate = "deepseek_v3", .groups = 2, .expert_groups = 2, .top_groups = 2},
                   false);
}

}  // namespace
}  // namespace trireme
