// See sampler.h.
#include "trireme/run/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"

namespace trireme {
namespace {

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
  if (options.top_p < 1) {
    double share = 0;
    size_t least = 0;
    while (least < weights.size() && share < options.top_p * total) share += weights[least++];
    weights.resize(std::max<size_t>(1, least));
    total = std::accumulate(weights.begin(), weights.end(), 0.0);
  }
  double left = uniform * total;
  for (size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order[weights.size() - 1];
}

void SampleOptions::validate() const {
  if (tokens < 0) throw_error("{} tokens asked for, 0 or more expected", tokens);
  if (!(temperature >= 0)) throw_error("temperature is {}, 0 or more expected", temperature);
  if (!(top_p > 0 && top_p <= 1)) throw_error("top-p is {}, a share above 0 and up to 1 expected", top_p);
  if (top_k < 0) throw_error("top-k is {}, 0 or more expected", top_k);
}

int32_t draw_token_at(int64_t index, std::span<const float> logits, const SampleOptions& options) {
  return draw_token(logits, options, uniform({options.seed, stream_id("sample")}, index));
}

void Sampler::generate(std::span<const int32_t> prompt, const SampleOptions& options,
                       const std::function<void(int32_t)>& on_token) {
  options.validate();
  generator_.begin(0, prompt);
  for (int64_t i = 0; i < options.tokens; ++i) {
    if (options.cache == SampleOptions::Cache::kNone) generator_.forget(0);
    while (generator_.unread(0) > 0) generator_.read(0);
    const int32_t token = draw_token_at(i, generator_.next(std::vector{0}), options);
    generator_.append(0, token);
    on_token(token);
  }
}

}  // namespace trireme
