// Texts that are written together: each must come out as if it were alone, whenever it begins and ends.
#include "trireme/run/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "tests/support/error_of.h"
#include "trireme/base/rng.h"
#include "trireme/run/sampler.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

ModelOptions model_of_family(const std::string& family) {
  ModelOptions model;
  model.family = family;
  model.layers = 2;
  model.heads = 4;
  model.kv_heads = family == "llama" ? 2 : 0;
  model.hidden = 32;
  model.vocab = 60;
  model.seq = 70;  // more than one piece
  if (family == "experts") {
    model.family = "llama";
    model.moe.experts = 4;
    model.moe.top_k = 2;
  }
  return model;
}

// A number of texts by a model with weights that make its tokens depend on all of the text before them.
struct Writer {
  Writer(const ModelOptions& model, int texts, int threads = 1)
      : device(make_cpu_device(threads)), generator(model, *device, texts) {
    for (const PartView& part : generator.weights()) {
      std::vector<float> values(static_cast<size_t>(part.view.shape.elements()));
      for (size_t i = 0; i < values.size(); ++i) values[i] = 0.3f * normal({5, stream_id(part.name)}, i);
      part.reach.write(0, values.data(), values.size() * sizeof(float));
    }
  }

  // Draws the token after each of these texts.
  void go_on(const std::vector<int>& texts) {
    for (const int text : texts) {
      while (generator.unread(text) > 0) generator.read(text);
    }
    const std::span<const float> logits = generator.next(texts);
    const size_t vocab = static_cast<size_t>(generator.vocab());
    drawn.resize(static_cast<size_t>(generator.texts()));
    for (size_t row = 0; row < texts.size(); ++row) {
      std::vector<int32_t>& own = drawn[texts[row]];
      own.push_back(draw_token_at(std::ssize(own), logits.subspan(row * vocab, vocab), {.temperature = 1}));
      generator.append(texts[row], own.back());
    }
  }

  std::unique_ptr<Device> device;
  Generator generator;
  std::vector<std::vector<int32_t>> drawn;
};

std::vector<int32_t> prompt_of(int text) {
  std::vector<int32_t> prompt(static_cast<size_t>(1 + 19 * text));  // up to more than the window
  for (size_t i = 0; i < prompt.size(); ++i)
    prompt[i] = static_cast<int32_t>((7 * i + 13 * static_cast<size_t>(text)) % 60);
  return prompt;
}

class TogetherOrAlone : public ::testing::TestWithParam<const char*> {};

// Five texts that begin one after the other and end at different times, so that groups of every size come
// about. Tokens that are drawn would soon differ if logits did.
TEST_P(TogetherOrAlone, TextsAreTheSame) {
  const ModelOptions model = model_of_family(GetParam());
  Writer together(model, 5, 2);
  const auto begin_of = [](int text) { return 3 * text; };
  const auto end_of = [](int text) { return 60 - 5 * text; };
  for (int step = 0; step < 60; ++step) {
    std::vector<int> going;
    for (int text = 0; text < 5; ++text) {
      if (step == begin_of(text)) together.generator.begin(text, prompt_of(text));
      if (step >= begin_of(text) && step < end_of(text)) going.insert(going.begin(), text);
    }
    together.go_on(going);
  }
  for (int text = 0; text < 5; ++text) {
    Writer alone(model, 1);
    alone.generator.begin(0, prompt_of(text));
    for (int step = begin_of(text); step < end_of(text); ++step) alone.go_on({0});
    EXPECT_EQ(alone.drawn[0], together.drawn[text]) << "text " << text;
    // In the place of the one that has ended.
    together.generator.begin(text, prompt_of(4 - text));
    together.drawn[text].clear();
    together.go_on({text});
    alone.generator.begin(0, prompt_of(4 - text));
    alone.drawn[0].clear();
    alone.go_on({0});
    EXPECT_EQ(alone.drawn[0], together.drawn[text]) << "after text " << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Generator, TogetherOrAlone, ::testing::Values("gpt", "llama", "experts", "lstm"));

TEST(Generator, ReadsNoMoreThanThePromptNeeds) {
  Writer writer(model_of_family("gpt"), 2);
  Generator& generator = writer.generator;
  generator.begin(0, prompt_of(0));
  EXPECT_EQ(generator.unread(0), 0);  // one token: next() reads it
  generator.begin(1, prompt_of(4));   // 77 tokens, of which the window has 70
  EXPECT_EQ(generator.unread(1), 69);
  EXPECT_EQ(generator.read(1), 64);
  EXPECT_EQ(generator.read(1), 5);
  EXPECT_EQ(generator.read(1), 0);
  generator.next(std::vector{1});
  generator.append(1, 3);  // the window is full: of its newer half all but the last token is read again
  EXPECT_EQ(generator.unread(1), 34);
}

TEST(Generator, RefusesPromptsThatItCanNotRead) {
  Writer writer(model_of_family("gpt"), 1);
  EXPECT_THAT(error_of([&] { writer.generator.begin(0, {}); }), HasSubstr("prompt is empty"));
  EXPECT_THAT(error_of([&] { writer.generator.begin(0, std::vector{60}); }), HasSubstr("vocabulary of 60"));
}

}  // namespace
}  // namespace trireme
