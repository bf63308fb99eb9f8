// Generates tokens from a trained language model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "trireme/runtime/executor.h"
#include "trireme/train/checkpoint/tensor_files.h"
#include "trireme/train/options.h"

namespace trireme {

struct SampleOptions {
  int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the likeliest token
  int64_t top_k = 0;         // 0: all tokens
  uint64_t seed = 1;

  void validate() const;  // throws Error
};

class Sampler {
 public:
  // model.vocab must be set. Weights are undefined until load().
  Sampler(const ModelOptions& model, Device& device);
  void load(const TensorFiles& files);

  // Continues `prompt` (at least one token), calling back with each new token as it is drawn.
  void generate(std::span<const int32_t> prompt, const SampleOptions& options,
                const std::function<void(int32_t)>& on_token);

 private:
  ModelOptions model_;
  Executor executor_;
};

}  // namespace trireme
