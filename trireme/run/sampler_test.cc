// Sampling: the distribution that is drawn from, and the cache, which must not change what is drawn.
#include "trireme/run/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <numeric>

#include "tests/support/error_of.h"
#include "trireme/base/error.h"
#include "trireme/base/rng.h"
#include "trireme/checkpoint/safetensors.h"
#include "trireme/runtime/executor.h"
#include "trireme/train/step.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

// How often each token is drawn when `uniform` goes evenly from 0 to 1.
std::vector<double> shares(const std::vector<float>& logits, const SampleOptions& options) {
  constexpr int kDraws = 20'000;
  std::vector<double> counts(logits.size(), 0);
  for (int i = 0; i < kDraws; ++i)
    counts[draw_token(logits, options, (static_cast<float>(i) + 0.5f) / kDraws)] += 1.0 / kDraws;
  return counts;
}

TEST(DrawToken, LogitsAreDividedByTheTemperature) {
  const std::vector<float> logits = {0.5f, -1.0f, 2.0f, 0.0f};
  for (const double temperature : {0.25, 0.8, 1.0, 3.0}) {
    double total = 0;
    for (const float logit : logits) total += std::exp(logit / temperature);
    const std::vector<double> found = shares(logits, {.temperature = temperature});
    for (size_t i = 0; i < logits.size(); ++i)
      EXPECT_NEAR(found[i], std::exp(logits[i] / temperature) / total, 2e-4) << temperature << " " << i;
  }
}

TEST(DrawToken, TopKDrawsFromTheLargestAlone) {
  const std::vector<double> found = shares({0.5f, -1.0f, 2.0f, 0.0f}, {.temperature = 1, .top_k = 2});
  const double first = std::exp(2.0), second = std::exp(0.5);
  EXPECT_NEAR(found[2], first / (first + second), 2e-4);
  EXPECT_NEAR(found[0], second / (first + second), 2e-4);
  EXPECT_EQ(found[1] + found[3], 0);
}

TEST(DrawToken, TopPDrawsFromTheFewestThatHaveItsShare) {
  const std::vector<float> logits = {0.5f, -1.0f, 2.0f, 0.0f};
  const double first = std::exp(2.0), second = std::exp(0.5);
  // The first has 0.709 of the probability, and the second another 0.158.
  EXPECT_NEAR(shares(logits, {.temperature = 1, .top_p = 0.7})[2], 1, 1e-9);
  const std::vector<double> found = shares(logits, {.temperature = 1, .top_p = 0.72});
  EXPECT_NEAR(found[2], first / (first + second), 2e-4);
  EXPECT_NEAR(found[0], second / (first + second), 2e-4);
  EXPECT_EQ(found[1] + found[3], 0);
}

// The same number gives the same token as when all tokens are sorted, likeliest first and equals by their id.
TEST(DrawToken, TokensComeInTheOrderOfTheirProbability) {
  std::vector<float> logits;
  for (uint64_t i = 0; i < 300; ++i)
    logits.push_back(std::round(4 * normal(RngKey{7, 1}, i)) / 4);  // many are equal
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater{}, [&](int32_t token) { return logits[token]; });
  for (const size_t top_k : {0, 40, 300}) {
    const size_t kept = top_k == 0 ? order.size() : top_k;
    double total = 0, below = 0;
    for (size_t i = 0; i < kept; ++i) total += std::exp(logits[order[i]] / 0.7);
    for (size_t i = 0; i < kept; ++i) {
      const double weight = std::exp(logits[order[i]] / 0.7);
      const auto middle = static_cast<float>((below + weight / 2) / total);
      EXPECT_EQ(draw_token(logits, {.temperature = 0.7, .top_k = static_cast<int64_t>(top_k)}, middle),
                order[i])
          << i << " of " << kept;
      below += weight;
    }
  }
}

TEST(DrawToken, TemperatureZeroTakesTheLargest) {
  EXPECT_EQ(draw_token(std::vector<float>{0.5f, -1.0f, 2.0f, 0.0f}, {.temperature = 0}, 0.999f), 2);
}

ModelOptions small_model(const char* family) {
  ModelOptions model;
  model.family = family;
  model.layers = 2;
  model.heads = 4;
  model.kv_heads = family == std::string("llama") ? 2 : 0;
  model.hidden = 32;
  model.vocab = 60;
  model.seq = 70;  // positions in more than one block of rope's table
  return model;
}

// A sampler with random weights, larger than those that training starts with: its tokens depend on all of
// the text before them.
class Samples {
 public:
  explicit Samples(const ModelOptions& model) : device_(make_cpu_device(1)), sampler_(model, *device_) {
    const Program program = build_program(generating_graphs(model), workspace_query(*device_));
    std::vector<std::vector<float>> values;
    std::vector<NamedTensor> tensors;
    for (const State& slot : program.states) {
      if (slot.role != Role::kParameter) continue;
      std::vector<float>& one = values.emplace_back(slot.type.shape.elements());
      for (size_t i = 0; i < one.size(); ++i) one[i] = 0.3f * normal({5, stream_id(slot.name)}, i);
      tensors.push_back({slot.name, {one.data(), DType::f32, slot.type.shape}});
    }
    const std::filesystem::path path =
        std::filesystem::path(::testing::TempDir()) / ("sampler_" + std::to_string(::getpid()));
    write_safetensors(path, tensors);
    sampler_.load(TensorFiles(path));
    std::filesystem::remove(path);
  }

  std::vector<int32_t> draw(const std::vector<int32_t>& prompt, const SampleOptions& options) {
    std::vector<int32_t> drawn;
    sampler_.generate(prompt, options, [&](int32_t token) { drawn.push_back(token); });
    return drawn;
  }

 private:
  std::unique_ptr<Device> device_;
  Sampler sampler_;
};

class EveryFamily : public ::testing::TestWithParam<const char*> {};

// Beyond the window too, and for prompts that fill it, or more than fill it.
TEST_P(EveryFamily, TheCacheChangesNothing) {
  Samples samples(small_model(GetParam()));
  for (const size_t prompt_size : {1, 69, 100}) {
    std::vector<int32_t> prompt(prompt_size);
    for (size_t i = 0; i < prompt_size; ++i) prompt[i] = static_cast<int32_t>(7 * i % 60);
    SampleOptions options{.tokens = 80, .temperature = 1, .seed = prompt_size};
    const std::vector<int32_t> cached = samples.draw(prompt, options);
    ASSERT_EQ(cached.size(), 80u);
    options.cache = SampleOptions::Cache::kNone;
    EXPECT_EQ(cached, samples.draw(prompt, options)) << prompt_size;
  }
}

TEST_P(EveryFamily, TextBeforeDecidesWhatFollows) {
  Samples samples(small_model(GetParam()));
  const SampleOptions options{.tokens = 40, .temperature = 1};
  EXPECT_NE(samples.draw({1, 2, 3, 4}, options), samples.draw({9, 2, 3, 4}, options));
  EXPECT_EQ(samples.draw({1, 2, 3, 4}, options), samples.draw({1, 2, 3, 4}, options));
}

INSTANTIATE_TEST_SUITE_P(Sampler, EveryFamily, ::testing::Values("gpt", "llama", "lstm"));

// The plain forward graph knows nothing of caches, lines and pieces: the likeliest token after each beginning
// of a text, computed by both.
TEST(Sampler, TakesTheLogitsOfTheLastToken) {
  const ModelOptions model = small_model("llama");
  Samples samples(model);
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Executor plain(
      build_program({forward_graph(model, {1, Shape{model.seq}}, DType::f32)}, workspace_query(*device)),
      *device);
  for (const State& slot : plain.program().states) {
    std::vector<float> values(slot.type.shape.elements());
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.3f * normal({5, stream_id(slot.name)}, i);
    plain.write_state(slot.name, values.data(), slot.type.bytes());
  }
  std::vector<int32_t> text = {3, 14, 15, 9, 26};
  const std::vector<int32_t> drawn = samples.draw(text, {.tokens = 30, .temperature = 0});
  std::vector<float> logits(model.seq * model.vocab);
  for (const int32_t token : drawn) {
    std::vector<int32_t> window = text;
    window.resize(model.seq, 0);
    plain.set_input(0, "ids", window.data(), window.size() * sizeof(int32_t));
    plain.run(0);
    plain.read_output(0, "logits", logits.data(), logits.size() * sizeof(float));
    const auto row = std::span(logits).subspan((text.size() - 1) * model.vocab, model.vocab);
    EXPECT_EQ(token, std::ranges::max_element(row) - row.begin()) << text.size();
    text.push_back(token);
  }
}

TEST(Sampler, RefusesWhatItCanNotGoOnFrom) {
  Samples samples(small_model("gpt"));
  EXPECT_THAT(error_of([&] { samples.draw({}, {}); }), HasSubstr("prompt is empty"));
  EXPECT_THAT(error_of([&] { samples.draw({60}, {}); }), HasSubstr("not below the model's vocabulary of 60"));
  EXPECT_THAT(error_of([&] { samples.draw({1}, {.temperature = -1}); }), HasSubstr("temperature is -1"));
}

}  // namespace
}  // namespace trireme
