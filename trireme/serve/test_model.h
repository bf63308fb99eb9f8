// A small language model over bytes for tests, with weights that make its text depend on all before it.
#pragma once

#include <memory>

#include "trireme/base/rng.h"
#include "trireme/run/generator.h"
#include "trireme/run/sampler.h"

namespace trireme::serve {

struct TestModel {
  explicit TestModel(int texts, int64_t seq = 48)
      : device(make_cpu_device(1)), generator(Model(options(seq)), *device, texts) {
    for (const PartView& part : generator.weights()) {
      std::vector<float> values(static_cast<size_t>(part.view.shape.elements()));
      for (size_t i = 0; i < values.size(); ++i) values[i] = 0.3f * normal({5, stream_id(part.name)}, i);
      part.reach.write(0, values.data(), values.size() * sizeof(float));
    }
  }

  static ModelOptions options(int64_t seq) {
    ModelOptions model;
    model.family = "gpt";
    model.layers = 1;
    model.heads = 2;
    model.hidden = 16;
    model.vocab = 256;
    model.seq = seq;
    return model;
  }

  // What a client should get that asks for this alone.
  std::vector<int32_t> tokens(const std::vector<int32_t>& prompt, const SampleOptions& asked) {
    std::vector<int32_t> drawn;
    generator.begin(0, prompt);
    for (int64_t i = 0; i < asked.tokens; ++i) {
      while (generator.unread(0) > 0) generator.read(0);
      drawn.push_back(draw_token_at(i, generator.next(std::vector{0}), asked));
      generator.append(0, drawn.back());
    }
    return drawn;
  }

  std::unique_ptr<Device> device;
  Generator generator;
};

}  // namespace trireme::serve
