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

// By the inverse of the distribution function, the likeliest tokens first. They come out of a heap one by
// one: most draws end among the first, so that a large vocabulary need not be sorted.
int32_t draw_token(std::span<const float> logits, const SampleOptions& options, float uniform) {
  const int32_t best = likeliest(logits);
  if (options.temperature == 0) return best;
  const auto weight = [&](int32_t token) {
    return std::exp((static_cast<double>(logits[token]) - logits[best]) / options.temperature);
  };
  const auto less = [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] < logits[b] : a > b;
  };
  std::vector<int32_t> rest(logits.size()), taken;
  std::iota(rest.begin(), rest.end(), 0);
  if (options.top_k > 0 && options.top_k < std::ssize(rest)) {
    std::ranges::nth_element(rest, rest.begin() + options.top_k,
                             [&](int32_t a, int32_t b) { return less(b, a); });
    rest.resize(options.top_k);
  }
  double total = 0;
  for (const int32_t token : rest) total += weight(token);
  std::ranges::make_heap(rest, less);
  const auto take = [&] {
    std::ranges::pop_heap(rest, less);
    taken.push_back(rest.back());
    rest.pop_back();
    return weight(taken.back());
  };
  if (options.top_p < 1) {
    double share = 0;
    do share += take();
    while (!rest.empty() && share < options.top_p * total);
    rest.clear();
    total = share;
  }
  double left = uniform * total;
  for (size_t i = 0;; ++i) {
    if (i == taken.size()) {
      if (rest.empty()) return taken.back();  // where rounding left a little over
      take();
    }
    left -= weight(taken[i]);
    if (left < 0) return taken[i];
  }
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
  const bool translates = generator_.translates();
  const int64_t tokens =
      translates ? std::min(options.tokens, generator_.longest_translation()) : options.tokens;
  for (int64_t i = 0; i < tokens; ++i) {
    if (options.cache == SampleOptions::Cache::kNone) generator_.forget(0);
    while (generator_.unread(0) > 0) generator_.read(0);
    const int32_t token = draw_token_at(i, generator_.next(std::vector{0}), options);
    if (translates && token == generator_.end()) return;
    on_token(token);
    if (i + 1 < tokens) generator_.append(0, token);
  }
}

}  // namespace trireme
