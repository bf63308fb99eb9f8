// Generates tokens from a trained language model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "trireme/checkpoint/tensor_files.h"
#include "trireme/models/model.h"
#include "trireme/runtime/runner.h"

namespace trireme {

struct SampleOptions {
  int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the likeliest token
  int64_t top_k = 0;         // 0: all tokens
  uint64_t seed = 1;
  // kNone: every token is computed from the whole window before it. The same tokens, slowly.
  enum class Cache { kKeysAndValues, kNone } cache = Cache::kKeysAndValues;

  void validate() const;  // throws Error
};

// The token at `uniform`, from 0 to 1, of the distribution that the logits mean: softmax(logits /
// temperature) over the top_k largest; the largest where the temperature is 0.
int32_t draw_token(std::span<const float> logits, const SampleOptions& options, float uniform);

class Sampler {
 public:
  // model.vocab must be set. Weights are undefined until load().
  Sampler(const Model& model, Device& device);
  void load(const TensorFiles& files) { files.read_all(weights()); }
  std::vector<PartView> weights();  // to be filled

  // Continues `prompt` (at least one token), calling back with each new token as it is drawn. A token sees
  // the last model.seq tokens at most: when they are full, the older half is left out.
  void generate(std::span<const int32_t> prompt, const SampleOptions& options,
                const std::function<void(int32_t)>& on_token);

 private:
  // The logits for the token after `window`, of model.seq tokens at most.
  std::span<const float> prefill(std::span<const int32_t> window);
  // The same, when the last call was for all of `window` but its last token.
  std::span<const float> decode(std::span<const int32_t> window);
  std::span<const float> logits(const When& when, std::span<const int32_t> ids, size_t position);

  ModelOptions model_;
  Executor executor_;
  Runner runner_;
  bool decodes_;  // whether the model can go on token by token
  std::vector<int32_t> padded_;
  std::vector<float> logits_;
};

}  // namespace trireme
