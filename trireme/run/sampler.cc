// Reads the prompt at once, then goes on token by token from the keys and values that the program keeps.
#include "trireme/run/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"
#include "trireme/train/state_reach.h"
#include "trireme/train/step.h"

namespace trireme {
namespace {

const When kPrefill = When::asked(When::What::kPrefill), kDecode = When::asked(When::What::kDecode);

Program make_program(const Model& model, const Device& device) {
  Program program = build_program(generating_graphs(model), workspace_query(device));
  for (size_t s = 0; s < program.segments.size(); ++s) {
    const std::string& name = program.segments[s].graph.name;
    program.lists.push_back({name, {Action::run(name)}, s == 0 ? kPrefill : kDecode});
  }
  return program;
}

int32_t likeliest(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace

// By the inverse of the distribution function.
int32_t draw_token(std::span<const float> logits, const SampleOptions& options, float uniform) {
  if (options.temperature == 0) return likeliest(logits);
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t kept = options.top_k > 0 ? std::min<size_t>(options.top_k, order.size()) : order.size();
  std::ranges::partial_sort(order, order.begin() + static_cast<int64_t>(kept), [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  order.resize(kept);
  std::vector<double> weights;
  double total = 0;
  for (int32_t token : order) {
    weights.push_back(
        std::exp((static_cast<double>(logits[token]) - logits[order[0]]) / options.temperature));
    total += weights.back();
  }
  double left = uniform * total;
  for (size_t i = 0; i < kept; ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order.back();
}

void SampleOptions::validate() const {
  if (tokens < 0) throw_error("{} tokens asked for, 0 or more expected", tokens);
  if (!(temperature >= 0)) throw_error("temperature is {}, 0 or more expected", temperature);
  if (top_k < 0) throw_error("top-k is {}, 0 or more expected", top_k);
}

Sampler::Sampler(const Model& model, Device& device)
    : model_(model.options),
      executor_(make_program(model, device), device),
      runner_(executor_),
      decodes_(executor_.program().find_list(kDecode) != nullptr),
      padded_(model_.seq),
      logits_(model_.vocab) {}

std::vector<PartView> Sampler::weights() {
  std::vector<PartView> parts;
  for (const State& slot : executor_.program().states) {
    if (slot.role == Role::kCache) continue;
    parts.push_back({slot.name, view_of(slot), all_of(slot.type.shape), reach_of(executor_, slot.name)});
  }
  return parts;
}

std::span<const float> Sampler::logits(const When& when, std::span<const int32_t> ids, size_t position) {
  const auto at = static_cast<int32_t>(position);
  const auto before = [&](const Runner::Turn& turn) {
    executor_.set_input(turn.segment, "ids", ids.data(), ids.size_bytes());
    executor_.set_input(turn.segment, "position", &at, sizeof at);
  };
  const auto after = [&](const Runner::Turn& turn) {
    executor_.read_output(turn.segment, "logits", logits_.data(), logits_.size() * sizeof(float));
  };
  runner_.run(runner_.turns(executor_.program().list(when)), before, after);
  return logits_;
}

std::span<const float> Sampler::prefill(std::span<const int32_t> window) {
  std::ranges::fill(padded_, 0);  // what follows the text is not seen by what precedes it
  std::ranges::copy(window, padded_.begin());
  return logits(kPrefill, padded_, window.size() - 1);
}

std::span<const float> Sampler::decode(std::span<const int32_t> window) {
  return logits(kDecode, window.last(1), window.size() - 1);
}

void Sampler::generate(std::span<const int32_t> prompt, const SampleOptions& options,
                       const std::function<void(int32_t)>& on_token) {
  options.validate();
  if (prompt.empty()) throw_error("the prompt is empty; give at least one token to go on from");
  for (int32_t token : prompt) {
    if (token < 0 || token >= model_.vocab)
      throw_error("token {} of the prompt is not below the model's vocabulary of {}", token, model_.vocab);
  }
  const bool cached = decodes_ && options.cache == SampleOptions::Cache::kKeysAndValues;
  const size_t seq = padded_.size();
  std::vector<int32_t> text(prompt.begin(), prompt.end());
  size_t begin = text.size() - std::min(text.size(), seq);  // of the window
  size_t known = 0;  // tokens of the window whose keys and values are kept
  for (int64_t i = 0; i < options.tokens; ++i) {
    // Positions count from the window's begin, so moving it by one would make all that is kept worthless.
    if (text.size() - begin > seq) {
      begin = text.size() - std::max<size_t>(1, seq / 2);
      known = 0;
    }
    const std::span window = std::span<const int32_t>(text).subspan(begin);
    const std::span<const float> logits = cached && known > 0 ? decode(window) : prefill(window);
    known = window.size();
    text.push_back(draw_token(logits, options, uniform({options.seed, stream_id("sample")}, i)));
    on_token(text.back());
  }
}

}  // namespace trireme
