// Runs the forward program on the last model.seq tokens for each new one. A cache of keys and values would
// save most of that work; for models small enough to sample on a CPU the plain way is quick enough.
#include "trireme/train/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"
#include "trireme/train/state_reach.h"
#include "trireme/train/step.h"

namespace trireme {
namespace {

Program make_program(const ModelOptions& model, const Device& device) {
  return build_program({forward_graph(model, {1, Shape{model.seq}}, DType::f32)}, workspace_query(device));
}

int32_t likeliest(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

// Draws from softmax(logits / temperature) over the top_k largest, by the inverse of the distribution
// function.
int32_t draw(std::span<const float> logits, const SampleOptions& options, float uniform) {
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

}  // namespace

void SampleOptions::validate() const {
  if (tokens < 0) throw_error("{} tokens asked for, 0 or more expected", tokens);
  if (!(temperature >= 0)) throw_error("temperature is {}, 0 or more expected", temperature);
  if (top_k < 0) throw_error("top-k is {}, 0 or more expected", top_k);
}

Sampler::Sampler(const ModelOptions& model, Device& device)
    : model_(model), executor_(make_program(model, device), device) {}

void Sampler::load(const TensorFiles& files) {
  std::vector<NamedTensor> tensors;
  for (const StateSlot& slot : executor_.program().states)
    tensors.push_back({slot.name, view_of(slot), reach_of(executor_, slot.name)});
  files.read_all(tensors);
}

void Sampler::generate(std::span<const int32_t> prompt, const SampleOptions& options,
                       const std::function<void(int32_t)>& on_token) {
  options.validate();
  if (prompt.empty()) throw_error("the prompt is empty; give at least one token to go on from");
  for (int32_t token : prompt) {
    if (token < 0 || token >= model_.vocab)
      throw_error("token {} of the prompt is not below the model's vocabulary of {}", token, model_.vocab);
  }
  std::vector<int32_t> text(prompt.begin(), prompt.end()), window(model_.seq);
  std::vector<float> logits(model_.seq * model_.vocab);
  for (int64_t i = 0; i < options.tokens; ++i) {
    const size_t used = std::min<size_t>(text.size(), model_.seq);
    std::ranges::fill(window, 0);  // what follows the text is not seen by what precedes it
    std::copy(text.end() - static_cast<int64_t>(used), text.end(), window.begin());
    executor_.set_input(0, "ids", window.data(), window.size() * sizeof(int32_t));
    executor_.run(0);
    executor_.read_output(0, "logits", logits.data(), logits.size() * sizeof(float));
    const std::span<const float> last(logits.data() + (used - 1) * model_.vocab, model_.vocab);
    const int32_t token = options.temperature == 0
                              ? likeliest(last)
                              : draw(last, options, uniform({options.seed, stream_id("sample")}, i));
    on_token(token);
    text.push_back(token);
  }
}

}  // namespace trireme
