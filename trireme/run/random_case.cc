// See random_case.h. Sizes are small and seldom powers of two: what goes wrong does so where parts are
// uneven, where an axis has more ranks than a dim has elements, and where two axes meet in one dim; and
// hundreds of such cases run in a minute. Most draws fit together; some do not, so that refusals are seen
// too.
#include "trireme/run/random_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"
#include "trireme/base/text.h"
#include "trireme/models/random_batch.h"
#include "trireme/plan/combinations.h"
#include "trireme/run/config.h"
#include "trireme/run/plan_settings.h"
#include "trireme/run/simulated_bytes.h"

namespace trireme::parity {
namespace {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

class Dice {
 public:
  Dice(uint64_t seed, uint64_t number) : key_{seed, number} {}

  int64_t between(int64_t low, int64_t high) {
    if (high <= low) return low;
    return low + static_cast<int64_t>(uniform_integer(key_, drawn_++, static_cast<uint64_t>(high - low) + 1));
  }
  bool chance(double share) { return static_cast<double>(between(0, 999)) < 1000 * share; }
  // One that is twice in the list comes twice as often.
  std::string word(const Words& words) { return words[between(0, std::ssize(words) - 1)]; }
  int64_t number(const std::vector<int64_t>& values) { return values[between(0, std::ssize(values) - 1)]; }

 private:
  RngKey key_;
  uint64_t drawn_ = 0;
};

std::vector<int64_t> divisors(int64_t value) {
  std::vector<int64_t> result;
  for (int64_t d = 1; d <= value; ++d) {
    if (value % d == 0) result.push_back(d);
  }
  return result;
}

struct NamedShape {
  std::string name;
  Shape shape;
};

Shape sample_of(const RandomCase& drawn, const ModelOptions& model) {
  return drawn.image.rank() > 0 ? drawn.image : find_model(model).usual_sample(model);
}

class Drawing {
 public:
  Drawing(uint64_t seed, uint64_t number, const CaseRanges& ranges)
      : dice_(seed, number), ranges_(ranges), seed_(static_cast<int64_t>(number % 1000)) {}

  RandomCase draw() {
    const Json exchange = dice_.chance(0.35) ? draw_exchange() : Json();
    draw_mesh();
    draw_model();
    Json plan{{"mesh", to_string(Mesh(axes_))}};
    const std::string preset = draw_preset();
    if (!preset.empty()) plan["preset"] = preset;
    const Features of_plan =
        features_of(Plan{.mesh = Mesh(axes_), .preset = preset.empty() ? "data" : preset});
    drawn_.insert(of_plan.begin(), of_plan.end());
    if (!exchange.is_null()) {
      plan["exchange"] = exchange;
      case_.exchange = exchange["method"];
    }
    const DrawnFamily* family = drawn_family();
    if (family && family->batch_norm == BatchNorm::kYes) drawn_.insert(Feature::kRunningStatistics);
    const bool local_norm = family && family->batch_norm == BatchNorm::kYes && dice_.chance(0.2);
    if (local_norm) plan["batch_norm"] = "local";
    // Rows that two axes share, and those that each rank normalises on its own, have to be even.
    const bool hybrid = preset.find("hybrid_cnn") != preset.npos;
    const bool alone = computes_alone() && drawn_.contains(Feature::kRunningStatistics);
    const int replicas = size_of_axis(kReplicaAxis);
    draw_training(std::max(1, replicas) * std::max(1, size_of_axis(kDataAxis)),
                  hybrid ? size_of_axis("tensor") : std::max(1, size_of_axis("expert")),
                  hybrid || local_norm || alone || replicas > 1);
    if (dice_.chance(computes_alone() ? 0.03 : 0.45) || has_axis("other")) draw_layouts(plan);
    if (dice_.chance(0.25)) plan["bucket_kib"] = dice_.number({1, 2, 8, 64});
    if (dice_.chance(0.15)) plan["algorithm"] = dice_.word({"native", "ring", "tree", "automatic"});
    if (dice_.chance(0.4)) plan["recompute"] = draw_recompute();
    if (has_axis(kPipeAxis))
      plan["schedule"] = takes(Feature::kChimera, 0.125)
                             ? "chimera"
                             : dice_.word({"1f1b", "1f1b", "gpipe", "interleaved", "zb_h1", "zb_h2", "zb_v"});
    if (takes(Feature::kOffload, 0.15)) plan["offload"] = draw_offload();
    if (has_axis(kPipeAxis) && has_axis("tensor") && dice_.chance(0.4)) plan["boundaries"] = "parts";
    draw_fine_tuning();
    case_.plan = plan.dump();
    return std::move(case_);
  }

 private:
  enum class BatchNorm { kNo, kYes };
  struct DrawnFamily {
    std::string_view name;
    size_t often;  // among the others
    void (Drawing::*draw)();
    Words presets;  // that suit it on an axis `tensor`
    BatchNorm batch_norm = BatchNorm::kNo;
  };
  static const std::vector<DrawnFamily> kFamilies;

  // The value that counts: the drawn one, or what the ranges fix.
  std::string set(std::string_view name, std::string value) {
    if (const auto fixed = ranges_.fixed.find(name); fixed != ranges_.fixed.end()) value = fixed->second;
    case_.settings.push_back(fmt::format("{}={}", name, value));
    return value;
  }
  int64_t set(std::string_view name, int64_t value) {
    const std::string text = set(name, std::to_string(value));
    return std::strtoll(text.c_str(), nullptr, 10);
  }

  // Whether something is drawn: seldom where it does not go with what was (plan/combinations.h).
  bool takes(Feature feature, double share) {
    if (!dice_.chance(share)) return false;
    Features all = drawn_;
    all.insert(feature);
    if (refused_by(all) && !dice_.chance(0.05)) return false;
    drawn_ = std::move(all);
    return true;
  }

  bool has_axis(std::string_view name) const { return size_of_axis(name) > 0; }
  int size_of_axis(std::string_view name) const {
    const auto found = std::ranges::find(axes_, name, &Axis::name);
    return found == axes_.end() ? 0 : found->size;
  }

  Json draw_offload() {
    Json offload{{"optimizer", "file"}, {"folder", "/tmp"}};
    for (const char* what : {"weights", "gradients"}) {
      if (takes(Feature::kOffloadedModel, 0.5)) offload[what] = "file";
    }
    return offload;
  }

  // Whether ranks have steps of their own.
  bool computes_alone() const {
    return drawn_.contains(Feature::kOwnWeights) || drawn_.contains(Feature::kServed);
  }

  // A way of agreement that is not dense, with settings by which it does something in a few steps.
  Json draw_exchange() {
    static const Words methods = [] {
      Words names;
      for (const ExchangeKind& kind : exchange_kinds()) {
        // Those about weights are fewer, and have more that can go wrong.
        names.insert(names.end(), kind.of == ExchangeKind::Of::kGradients ? 1 : 3, std::string(kind.name));
      }
      return names;
    }();
    Json exchange{{"method", dice_.word(methods)}};
    const ExchangeKind& kind = *find_exchange_kind(exchange["method"].get<std::string>());
    for (const ExchangeSetting& setting : kind.settings) {
      if (setting.kind == ExchangeSetting::Kind::kWord) {
        Words words(setting.words.begin(), setting.words.end());
        exchange[std::string(setting.name)] = dice_.word(words);
      } else if (const auto value = draw_setting(setting)) {
        if (setting.kind == ExchangeSetting::Kind::kWhole)
          exchange[std::string(setting.name)] = static_cast<int64_t>(*value);
        else
          exchange[std::string(setting.name)] = *value;
      }
    }
    // For all ranks that there may be: servers are few.
    ExchangeRule rule{.method = exchange["method"]};
    const Features features =
        features_of(Plan{.mesh = Mesh({{"data", 2}}), .agreement = Agreement({rule}, 2)});
    drawn_.insert(features.begin(), features.end());
    return exchange;
  }

  std::optional<double> draw_setting(const ExchangeSetting& setting) {
    static const std::map<std::string_view, std::vector<double>> values = {
        {"ratio", {0.05, 0.2, 1}}, {"feedback", {0, 1, 1}},   {"momentum", {0, 0.5, 0.9}},
        {"nesterov", {0, 1}},      {"masking", {0, 1, 1}},    {"warmup", {1, 2}},
        {"sampled", {0, 0.3}},     {"rank", {1, 2}},          {"threshold", {1e-3, 1e-2}},
        {"bits", {2, 4, 8}},       {"bucket", {7, 512}},      {"block", {3, 16}},
        {"steps", {1, 2, 3}},      {"fraction", {0.5, 1, 1}}, {"clients", {0, 0, 16}},
        {"seed", {0, 7}},          {"outer_rate", {0.7, 1}},  {"outer_momentum", {0, 0.9}},
        {"delay", {0, 1, 2, 3}},   {"period", {1, 2}},        {"correction", {0, 1, 1}},
        {"staleness", {0, 1, 2}},  {"stale_rate", {0, 1}}};
    const auto found = values.find(setting.name);
    if (found == values.end() || dice_.chance(0.2)) return {};
    return found->second[static_cast<size_t>(dice_.between(0, std::ssize(found->second) - 1))];
  }

  // One to five axes in many orders. `other` is one that no preset knows.
  void draw_mesh() {
    const bool exchanges = drawn_.contains(Feature::kExchange), served = drawn_.contains(Feature::kServed);
    if (exchanges && !dice_.chance(served ? 0.05 : 0.4)) {
      axes_.push_back({"data", static_cast<int>(dice_.between(2, std::max(2, ranges_.max_ranks)))});
      return;
    }
    Words names = dice_.chance(0.3) ? Words{dice_.word({"data", "data", "tensor"})} : Words{"data", "tensor"};
    if (dice_.chance(0.08)) names.push_back("other");
    if (dice_.chance(0.1)) names.push_back("expert");
    if (dice_.chance(0.1)) names.push_back("context");
    if (dice_.chance(0.25)) names.insert(names.begin(), std::string(kPipeAxis));
    if (dice_.chance(exchanges ? 0.6 : 0.12)) names.insert(names.begin(), std::string(kReplicaAxis));
    if (names.size() > 1 && dice_.chance(0.5)) std::swap(names[0], names[1]);
    if (names.size() > 2 && dice_.chance(0.5)) std::swap(names[1], names[2]);
    int64_t left = ranges_.max_ranks;
    for (const std::string& name : names) {
      // Mostly two or more, as long as that leaves something for the others.
      const bool last = name == names.back();
      const int64_t most = last ? left : std::max<int64_t>(1, left / 2);
      const int64_t size = dice_.chance(0.05) ? 1 : dice_.between(std::min<int64_t>(2, most), most);
      axes_.push_back({name, static_cast<int>(size)});
      left /= size;
    }
  }

  void draw_model() {
    Words names;
    for (const DrawnFamily& family : kFamilies)
      names.insert(names.end(), family.often, std::string(family.name));
    case_.family = set("model.family", dice_.word(names));
    if (const DrawnFamily* family = drawn_family()) (this->*family->draw)();
    set("model.dropout", dice_.word({"0", "0", "0.1", "0.4"}));
  }

  // Null for one that the ranges fix and that is not drawn here.
  const DrawnFamily* drawn_family() const {
    const auto found = std::ranges::find(kFamilies, case_.family, &DrawnFamily::name);
    return found == kFamilies.end() ? nullptr : &*found;
  }

  void draw_gpt() {
    const int64_t least = draw_layers_and_least();
    const int64_t heads = set("model.heads", dice_.between(least, 8));
    set("model.hidden", heads * dice_.between(1, 8));
    draw_feed_forward();
    draw_experts();
  }
  // Mostly as many as the ranks that share them, or more.
  void draw_experts() {
    const int64_t ranks = size_of_axis("expert");
    if (!takes(Feature::kExperts, ranks > 0 ? 0.9 : 0.2)) return;
    const int64_t experts = set("model.moe.experts", dice_.between(std::max<int64_t>(1, ranks), 8));
    const std::string gate =
        set("model.moe.gate", dice_.word({"gshard", "switch", "mixtral", "deepseek_v3"}));
    if (gate == "mixtral" || gate == "deepseek_v3")
      set("model.moe.top_k", dice_.between(1, std::min<int64_t>(3, experts)));
    if (dice_.chance(0.5)) set("model.moe.capacity", dice_.word({"0", "1", "1.25", "0.5"}));
    if (dice_.chance(0.3)) set("model.moe.shared", int64_t{1});
    if (dice_.chance(0.2)) set("model.moe.every", int64_t{2});
    if (dice_.chance(0.3)) set("model.moe.hidden", dice_.between(1, 24));
    if (dice_.chance(0.3)) set("model.moe.z_loss", std::string("0.01"));
  }
  void draw_llama() {
    const int64_t least = draw_layers_and_least();
    const int64_t heads = set("model.heads", dice_.between(least, 8));
    set("model.hidden", heads * 2 * dice_.between(1, 4));
    set("model.kv_heads", draw_divisor(heads, least));
    draw_feed_forward();
    draw_experts();
  }
  void draw_lstm() {
    set("model.layers", dice_.between(1, ranges_.max_layers));
    set("model.hidden", dice_.between(2, 16));
    draw_tokens(6);
  }
  void draw_mlp() {
    set("model.layers", dice_.between(1, ranges_.max_layers + 2));
    set("model.hidden", dice_.between(1, 24));
    draw_image(dice_.between(1, 3), dice_.between(1, 6), dice_.between(1, 6));
  }
  void draw_lenet() { draw_image(dice_.number({1, 3}), 28, dice_.number({28, 28, 31})); }
  void draw_alexnet() {
    set("model.channels", dice_.between(1, 3));
    set("model.feed_forward", dice_.between(1, 24));
    draw_image(dice_.number({1, 3}), dice_.between(8, 12), dice_.between(8, 12));
  }
  void draw_vgg() {
    set("model.layers", dice_.number({11, 11, 13, 16, 19}));
    set("model.channels", dice_.between(1, 2));
    set("model.feed_forward", dice_.between(1, 24));
    draw_image(dice_.number({1, 3}), 32, dice_.number({32, 33}));
  }
  // Not of one channel: a filter of one number behind a batch norm has no gradient but rounding errors, of
  // which LARS and LAMB make steps as long as any other.
  void draw_resnet() {
    const int64_t layers = set("model.layers", dice_.number({8, 8, 8, 14, 20, 18, 50}));
    if (layers == 18 || layers == 50) {
      set("model.channels", dice_.between(2, 4));
      set("model.stem", dice_.word({"3x3", "7x7"}));
    }
    if (layers == 50) set("model.width", dice_.between(1, 2));
    draw_image(3, dice_.between(4, 9), dice_.between(4, 9));
  }
  void draw_wide_resnet() {
    set("model.layers", dice_.number({10, 10, 16}));
    set("model.channels", dice_.between(2, 4));
    set("model.width", dice_.between(1, 3));
    draw_image(3, dice_.between(4, 9), dice_.between(4, 9));
  }

  void draw_seq2seq() {
    const int64_t least = draw_layers_and_least();
    const int64_t heads = set("model.heads", dice_.between(least, 8));
    set("model.hidden", heads * 2 * dice_.between(1, 4));
    draw_feed_forward();
    if (dice_.chance(0.8)) set("model.source_seq", dice_.between(1, 16));
  }

  void draw_lstm_seq2seq() {
    draw_lstm();
    if (dice_.chance(0.8)) set("model.source_seq", dice_.between(1, 16));
  }

  // Four stages, each of half the patches a side; windows that some of them fill and others do not.
  void draw_swin() {
    set("model.layers", dice_.number({8, 8, 9}));
    const int64_t heads =
        set("model.heads", dice_.between(std::clamp<int64_t>(size_of_axis("tensor"), 1, 4), 4));
    set("model.hidden", heads * dice_.between(1, 3));
    const int64_t patch = set("model.patch", dice_.between(1, 2));
    set("model.window", dice_.number({2, 4}));
    draw_image(dice_.number({1, 3}), patch * 8, patch * dice_.number({8, 16}));
  }

  // The fewest heads, which mostly are enough for the ranks that share them.
  int64_t draw_layers_and_least() {
    set("model.layers", dice_.between(1, ranges_.max_layers));
    return dice_.chance(0.9) ? std::clamp<int64_t>(size_of_axis("tensor"), 1, 8) : 1;
  }
  void draw_feed_forward() {
    set("model.feed_forward", dice_.chance(0.4) ? 0 : dice_.between(1, 40));
    draw_tokens(16);
  }

  int64_t draw_divisor(int64_t value, int64_t least) {
    std::vector<int64_t> found = divisors(value);
    std::erase_if(found, [&](int64_t divisor) { return divisor < least; });
    return dice_.number(found.empty() ? divisors(value) : found);
  }

  void draw_tokens(int64_t longest) {
    set("model.vocab", dice_.between(2, 40));
    set("model.seq", dice_.between(1, longest));
  }

  void draw_image(int64_t channels, int64_t height, int64_t width) {
    case_.image = Shape{channels, height, width};
    set("model.classes", dice_.between(2, 9));
  }

  void draw_training(int64_t data, int64_t also, bool even) {
    const int64_t shards = takes(Feature::kShards, 0.15) ? dice_.number({2, 4, 8}) : 0;
    const int64_t accumulate = shards > 0 ? 1 : dice_.number({1, 1, 1, 2, 3});
    const int64_t ways = std::max<int64_t>(1, data) * std::max<int64_t>(1, also);
    // One row of a rank alone may have no target that counts.
    const int64_t least = computes_alone() ? 2 : 1;
    const int64_t rows = dice_.chance(0.05) ? dice_.between(1, 12)
                         : even             ? ways * dice_.between(least, 2)
                                            : dice_.between(least * ways, 2 * ways + 4);
    set("train.accumulate", accumulate);
    if (shards > 0) set("train.shards", shards);
    set("train.batch", rows * accumulate * std::max<int64_t>(1, shards));
    case_.precision =
        set("train.precision", computes_alone() && !dice_.chance(0.03) ? dice_.word({"f32", "f32", "bf16"})
                                                                       : dice_.word({"f32", "bf16", "f16"}));
    set("train.seed", seed_);
    if (dice_.chance(0.2)) set("train.clip_norm", dice_.word({"0", "0.01"}));
    if (takes(Feature::kNoiseScale, 0.1)) set("train.noise_scale", std::string("true"));
    if (dice_.chance(0.1)) set("train.label_smoothing", std::string("0.1"));
    // Some compressors have a momentum of their own.
    const bool compressed = drawn_.contains(Feature::kExchange) && !computes_alone();
    const std::string kind =
        set("optim.kind", compressed && dice_.chance(0.6)
                              ? "sgd"
                              : dice_.word({"adamw", "adam", "sgd", "momentum", "nesterov", "lars", "lamb"}));
    const bool adaptive = kind.starts_with("adam") || kind == "lamb";
    set("optim.lr", std::string(adaptive ? "0.001" : "0.05"));
    if (dice_.chance(0.3)) set("optim.weight_decay", std::string("0"));
    if (case_.precision == "f32" || dice_.chance(drawn_.contains(Feature::kExchange) ? 0.95 : 0.5)) return;
    set("train.weight_precision", case_.precision);
    if (dice_.chance(0.5)) set("train.gradient_precision", case_.precision);
  }

  // Patterns that some models have; others refuse them.
  void draw_fine_tuning() {
    if (takes(Feature::kAverages, 0.1)) set("train.ema", dice_.word({"0.5", "0.99"}));
    if (dice_.chance(0.12)) set("model.lora.rank", dice_.between(1, 3));
    if (dice_.chance(0.15))
      set("train.freeze",
          dice_.word({"*.bias", "*.weight", "h.0.*", "wte*", "model.layers.*", "layer1.*", "*1*"}));
    if (dice_.chance(0.1))
      set("optim.groups",
          dice_.word({R"([{match = "*.bias", lr_scale = 0.1}])",
                      R"([{match = "*1*", weight_decay = 0.5}, {match = "*", lr_scale = 2}])"}));
  }

  // Mostly one that suits the model and the axes.
  std::string draw_preset() {
    Words parts;
    const bool inside = drawn_.contains(Feature::kOwnWeights) && size_of_axis(kReplicaAxis) > 1;
    const double split = inside                                ? 0.8
                         : computes_alone()                    ? 0.04
                         : drawn_.contains(Feature::kExchange) ? 0.3
                                                               : 1;
    if (has_axis("data") && dice_.chance(0.9))
      parts.push_back(dice_.chance(split) ? dice_.word({"data", "zero1", "zero1", "zero2", "zero3"})
                                          : "data");
    if (has_axis("expert") && dice_.chance(0.95)) parts.push_back("expert");
    if (has_axis("context") && dice_.chance(0.95))
      parts.push_back(dice_.word({"context", "ulysses", "context+striped", "ring"}));
    if (has_axis("tensor") && dice_.chance(0.95)) {
      const DrawnFamily* family = drawn_family();
      Words suited = family ? family->presets : Words{"megatron"};
      if (dice_.chance(0.05)) suited = {"hybrid_cnn", "megatron+sequence", "megatron"};
      parts.push_back(dice_.word(suited));
    }
    return join(parts, "+");
  }

  // By a word, or by scopes that some models have.
  Json draw_recompute() {
    if (dice_.chance(0.8)) return dice_.word({"full", "full", "selective", "none", "full_keep_collectives"});
    return Words{
        dice_.word({"h.0", "h.*", "h.*/mlp", "model.layers.0", "lstm.l0/*", "layer1.0", "layers.0"})};
  }

  // Names and shapes of what may be given a layout.
  struct Named {
    std::vector<NamedShape> parameters, inputs, results;
  };

  Named named_values() const {
    ConfigSources sources{.command_line = case_.settings};
    sources.command_line.emplace_back("data.path=none");
    const Config config = resolve_config(sources).config;
    const StepShape shape{config.train.batch / config.train.accumulate, sample_of(case_, config.model)};
    const StepGraphs step =
        step_graphs(config.model, config.train, config.optim, shape, schedule_of(config.train));
    Named named;
    for (const Value& value : step.segments[0].graph.values) {
      const NamedShape one{value.name, value.type.shape};
      if (value.kind == Value::Kind::kResult) named.results.push_back(one);
      if (value.role == Role::kBatch) named.inputs.push_back(one);
    }
    for (const Value& value : step.parameters) named.parameters.push_back({value.name, value.type.shape});
    return named;
  }

  void draw_layouts(Json& plan) {
    Named named;
    try {
      named = named_values();
    } catch (const Error&) {
      return;  // settings that do not fit together have no graph; the case will say why
    }
    for (int64_t count = dice_.between(1, 3); count > 0; --count) {
      const int64_t kind = dice_.between(0, 19);  // inputs are seldom drawn: most such layouts are refused
      const std::vector<NamedShape>& from = kind < 12   ? named.parameters
                                            : kind < 18 ? named.results
                                                        : named.inputs;
      const NamedShape& value = from[dice_.between(0, std::ssize(from) - 1)];
      const std::string layout = draw_layout(value.shape);
      if (!layout.empty()) plan["layouts"][pattern_of(value.name)] = layout;
    }
  }

  // The name, or one that stands for all layers.
  std::string pattern_of(std::string name) {
    const size_t digit = name.find_first_of("0123456789");
    if (digit == name.npos || digit == 0 || dice_.chance(0.7)) return name;
    return name.replace(digit, 1, "*");
  }

  // Mostly one that leaves each rank something.
  int64_t draw_unit(int64_t extent, int64_t ways) {
    std::vector<int64_t> units = divisors(extent);
    if (extent >= ways && dice_.chance(0.8))
      std::erase_if(units, [&](int64_t unit) { return extent / unit < ways; });
    return units.empty() ? 1 : dice_.number(units);
  }

  std::string draw_layout(const Shape& shape) {
    Words placements;
    std::map<int64_t, int64_t> ways;  // that dims are cut in so far
    for (const Axis& axis : axes_) {
      if (shape.rank() == 0 || dice_.chance(0.4)) continue;
      const int64_t dim = dice_.between(0, shape.rank() - 1);
      // A dim that two axes cut has to divide evenly; seldom it is tried all the same.
      const int64_t before = std::exchange(ways[dim], std::max<int64_t>(1, ways[dim]) * axis.size);
      if (before > 1 && shape[dim] % ways[dim] != 0 && !dice_.chance(0.1)) continue;
      std::string text = fmt::format("{}:{}", axis.name, dim);
      if (dice_.chance(0.1)) text += fmt::format("/{}", draw_unit(shape[dim], axis.size));
      placements.push_back(text);
    }
    return join(placements, " ");
  }

  Dice dice_;
  const CaseRanges& ranges_;
  int64_t seed_;
  std::vector<Axis> axes_;
  Features drawn_;
  RandomCase case_;
};

const std::vector<Drawing::DrawnFamily> Drawing::kFamilies = {
    {"gpt", 3, &Drawing::draw_gpt, {"megatron", "megatron", "megatron+sequence"}},
    {"llama", 2, &Drawing::draw_llama, {"megatron", "megatron", "megatron+sequence"}},
    {"bert", 2, &Drawing::draw_gpt, {"megatron", "megatron", "megatron+sequence"}},
    {"lstm", 1, &Drawing::draw_lstm, {"megatron", "megatron"}},
    {"mlp", 2, &Drawing::draw_mlp, {"megatron", "megatron"}},
    {"lenet", 1, &Drawing::draw_lenet, {"hybrid_cnn", "hybrid_cnn"}},
    {"alexnet", 1, &Drawing::draw_alexnet, {"hybrid_cnn", "hybrid_cnn"}},
    {"vgg", 1, &Drawing::draw_vgg, {"hybrid_cnn", "hybrid_cnn"}},
    {"resnet", 1, &Drawing::draw_resnet, {"hybrid_cnn", "hybrid_cnn"}, BatchNorm::kYes},
    {"wide_resnet", 1, &Drawing::draw_wide_resnet, {"hybrid_cnn", "hybrid_cnn"}, BatchNorm::kYes},
    {"swin", 1, &Drawing::draw_swin, {"megatron", "megatron"}},
    {"seq2seq", 1, &Drawing::draw_seq2seq, {"megatron", "megatron", "megatron+sequence"}},
    {"lstm_seq2seq", 1, &Drawing::draw_lstm_seq2seq, {"megatron", "megatron"}},
};

// Nothing in a case holds a quote of its own.
std::string quoted(const std::string& text) {
  return "'" + text + "'";
}

}  // namespace

RandomCase draw_case(uint64_t seed, uint64_t number, const CaseRanges& ranges) {
  return Drawing(seed, number, ranges).draw();
}

int64_t steps_of(const RandomCase& drawn) {
  return drawn.exchange.empty() ? kCaseSteps : kAgreeingCaseSteps;
}

std::string command_of(const RandomCase& drawn) {
  std::string text =
      fmt::format("trireme verify --random --steps {} --plan {}", steps_of(drawn), quoted(drawn.plan));
  if (drawn.image.rank() > 0)
    text += fmt::format(" --image {}x{}x{}", drawn.image[0], drawn.image[1], drawn.image[2]);
  for (const std::string& setting : drawn.settings) text += " --" + setting;
  return text;
}

Training random_training(const Config& config, const Shape& sample, int64_t steps) {
  Training training{config.model, config.train,
                    config.optim, {config.train.batch / config.train.accumulate, sample},
                    {},           {}};
  for (int64_t step = 0; step < steps; ++step) {
    ignore_some_targets(training.batches.emplace_back(
        random_batch(config.model, sample, config.train.batch, static_cast<uint64_t>(step))));
    training.rates.push_back(config.optim.lr);
  }
  return training;
}

Result verify_case(const RandomCase& drawn) {
  const auto refuse = [](const Error& error) {
    return Result{.verdict = Verdict::kRefused, .reason = error.what()};
  };
  Plan plan;
  ResolvedConfig config;
  try {
    ConfigSources sources{.command_line = drawn.settings};
    sources.command_line.emplace_back("data.path=none");  // image models ask for one
    config = resolve_config(sources);
    plan = parse_plan(drawn.plan, "the plan");
    apply_plan(plan, config);
  } catch (const Error& error) {
    return refuse(error);
  }
  const Shape sample = sample_of(drawn, config.config.model);
  std::unique_ptr<Reference> reference;
  try {
    reference = std::make_unique<Reference>(random_training(config.config, sample, steps_of(drawn)));
  } catch (const Error& error) {
    return refuse(error);
  }
  Result result = verify(*reference, plan);
  if (drawn.exchange.empty() || result.verdict > Verdict::kRounding) return result;
  const Training& training = reference->training();
  const std::string problem =
      simulated_bytes_problem(training.model, training.train, training.optim, training.shape, plan);
  if (!problem.empty()) {
    result.verdict = Verdict::kBug;
    result.reason = problem;
  }
  return result;
}

}  // namespace trireme::parity
