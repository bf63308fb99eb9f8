// Generates tokens from a trained language model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "trireme/checkpoint/tensor_files.h"
#include "trireme/run/generator.h"

namespace trireme {

struct SampleOptions {
  int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the likeliest token
  int64_t top_k = 0;         // 0: all tokens
  double top_p = 1;  // of the likeliest tokens, as many as have this share of the probability together
  uint64_t seed = 1;
  // kNone: every token is computed from the whole window before it. The same tokens, slowly.
  enum class Cache { kKeysAndValues, kNone } cache = Cache::kKeysAndValues;

  void validate() const;  // throws Error
};

// The token at `uniform`, from 0 to 1, of the distribution that the logits mean: softmax(logits /
// temperature) over the top_k largest, and of those the fewest that have the share top_p; the largest where
// the temperature is 0.
int32_t draw_token(std::span<const float> logits, const SampleOptions& options, float uniform);
// Token number `index` of what is generated: drawn by a number that depends on the seed and the index alone.
int32_t draw_token_at(int64_t index, std::span<const float> logits, const SampleOptions& options);

class Sampler {
 public:
  // model.vocab must be set. Weights are undefined until load(). Of several ranks (run/generator.h) all
  // generate the same text.
  Sampler(const Model& model, Device& device, const RankOptions& ranks = {})
      : generator_(model, device, 1, ranks) {}
  void load(const TensorFiles& files) { files.read_all(weights()); }
  std::vector<PartView> weights() { return generator_.weights(); }  // to be filled

  // Continues `prompt` (at least one token), calling back with each new token as it is drawn. A token sees
  // the last model.seq tokens at most: when they are full, the older half is left out. Of a model of pairs
  // the prompt is the source; what it becomes ends by itself, and its end is not told.
  void generate(std::span<const int32_t> prompt, const SampleOptions& options,
                const std::function<void(int32_t)>& on_token);

 private:
  Generator generator_;
};

}  // namespace trireme
