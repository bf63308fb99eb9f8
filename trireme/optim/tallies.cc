// See tallies.h. Ordinary ops do.
#include "trireme/optim/tallies.h"

#include <algorithm>
#include <map>

#include "trireme/base/error.h"
#include "trireme/ir/trained.h"

namespace trireme {
namespace {

constexpr std::string_view kMaxLoad = "max_load.", kDropped = "dropped.", kEntropy = "entropy.",
                           kBalance = "balance.";

ValueId over_experts(Builder& b, std::string_view op, ValueId x) {
  return b.op(op, {x}, {{"dims", std::vector<int64_t>{0}}});
}

// The sums of one layer, by role.
using LayerSums = std::map<OutputRole, ValueId>;

// Models may be the user's.
void check_sums(const Builder& b, const std::string& layer, const LayerSums& sums) {
  const auto has = [&](OutputRole role, int rank) {
    const auto found = sums.find(role);
    return found != sums.end() && b.shape(found->second).rank() == rank;
  };
  const bool vectors = has(OutputRole::kLoad, 1) && has(OutputRole::kImportance, 1);
  if (!vectors || !has(OutputRole::kDropped, 0) || !has(OutputRole::kObjective, 0))
    throw_error(
        "the model tallies some of what a layer with experts has, '{}'; expected load and importance, with a "
        "number for each expert, and dropped and objective, one number each",
        layer);
}

void add_outputs(Builder& b, const std::string& layer, const LayerSums& sums) {
  const ValueId load = sums.at(OutputRole::kLoad), importance = sums.at(OutputRole::kImportance);
  const ValueId choices = over_experts(b, "sum", load);
  const std::vector<std::string> names = expert_use_outputs(layer);
  const double experts = static_cast<double>(b.shape(load)[0]);
  b.output(names[0],
           b.op("affine", {b.op("div", {over_experts(b, "max", load), choices})}, {{"scale", experts}}));
  b.output(names[1], b.op("div", {sums.at(OutputRole::kDropped), choices}));
  // −Σ p·log p; the smallest of numbers keeps an expert that no token looks at from being −∞·0.
  const ValueId share = b.op("div", {importance, over_experts(b, "sum", importance)});
  const ValueId logs = b.op("log", {b.op("affine", {share}, {{"shift", 1e-30}})});
  b.output(names[2], b.op("neg", {over_experts(b, "sum", b.op("mul", {share, logs}))}));
  b.output(names[3], b.op("affine", {sums.at(OutputRole::kObjective)}));
}

// Of whole numbers that all ranks have alike, so that the bias is the same everywhere.
void renew(Builder& b, const Value& bias, ValueId load, ValueId scale) {
  const double rate = bias.attrs.real(kBalanceRate);
  const ValueId old = b.declare(bias);
  const ValueId mean = b.op("affine", {over_experts(b, "sum", load)},
                            {{"scale", 1.0 / static_cast<double>(b.shape(load)[0])}});
  const auto all = [&](double value) { return b.op("affine", {load}, {{"scale", 0.0}, {"shift", value}}); };
  const auto where = [&](const char* kind, ValueId yes, ValueId no) {
    return b.op("select", {b.op("compare", {load, mean}, {{"kind", kind}}), yes, no});
  };
  const ValueId change = where("lt", all(rate), where("gt", all(-rate), all(0)));
  b.update(old, unless_skipped(b, b.op("add", {old, change}), old, scale));
}

}  // namespace

std::string tally_name(OutputRole role, std::string_view layer) {
  return fmt::format("{}.{}", name(role), layer);
}

std::string layer_of_tally(const Output& output) {
  const std::string prefix = tally_name(output.role, "");
  TRIREME_CHECK(output.name.starts_with(prefix));
  return output.name.substr(prefix.size());
}

std::string tally_state_name(std::string_view output) {
  return fmt::format("accumulated.{}", output);
}

std::vector<std::string> expert_use_outputs(std::string_view layer) {
  std::vector<std::string> names;
  for (const std::string_view what : {kMaxLoad, kDropped, kEntropy, kBalance})
    names.push_back(fmt::format("{}{}", what, layer));
  return names;
}

std::vector<std::string> layers_with_experts(const Graph& update) {
  std::vector<std::string> layers;
  for (const Output& output : update.outputs) {
    if (output.name.starts_with(kMaxLoad)) layers.push_back(output.name.substr(kMaxLoad.size()));
  }
  return layers;
}

// 0·value <= scale holds except where one of them is not finite, because a scale that is a number is not
// negative.
ValueId unless_skipped(Builder& b, ValueId value, ValueId old, ValueId scale) {
  const ValueId zero = b.op("affine", {value}, {{"scale", 0.0}});
  return b.op("select", {b.op("compare", {zero, scale}, {{"kind", "le"}}), value, old});
}

void add_tallies(Builder& b, const Tallies& tallies, ValueId scale) {
  std::vector<std::string> layers;  // in the order of the model
  std::map<std::string, LayerSums> sums;
  for (const Value& state : tallies.sums) {
    const std::string& layer = state.attrs.text("layer");
    const std::optional<OutputRole> role = parse_output_role(state.attrs.text(kTallies));
    TRIREME_CHECK(role.has_value());
    if (!sums.contains(layer)) layers.push_back(layer);
    sums[layer][*role] = b.declare(state);
  }
  for (const std::string& layer : layers) {
    const Builder::Scope scope(b, layer);
    check_sums(b, layer, sums.at(layer));
    add_outputs(b, layer, sums.at(layer));
    for (const Value& bias : tallies.biases) {
      if (bias.attrs.text(kBalances) == layer) renew(b, bias, sums.at(layer).at(OutputRole::kLoad), scale);
    }
  }
}

}  // namespace trireme
