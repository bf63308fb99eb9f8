// Texts that are written together: each must come out as if it were alone, whenever it begins and ends.
#include "trireme/run/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "tests/support/error_of.h"
#include "trireme/base/rng.h"
#include "trireme/comm/context.h"
#include "trireme/plan/plan.h"
#include "trireme/run/sampler.h"
#include "trireme/runtime/mesh_communicator.h"

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
  model.seq = 70;         // more than one piece
  model.source_seq = 78;  // of seq2seq: the longest prompt and its end
  if (family == "experts") {
    model.family = "llama";
    model.moe.experts = 4;
    model.moe.top_k = 2;
  }
  return model;
}

// Weights that make tokens depend on all of the text before them; of each tensor the part that a rank has.
void fill(const PartView& part) {
  std::vector<float> whole(static_cast<size_t>(part.part.whole.elements())),
      own(static_cast<size_t>(part.view.shape.elements()));
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = 0.3f * normal({5, stream_id(part.name)}, i);
  for_each_common_run(all_of(part.part.whole), part.part, [&](int64_t from, int64_t to, int64_t elements) {
    std::copy_n(whole.begin() + from, elements, own.begin() + to);
  });
  part.reach.write(0, own.data(), own.size() * sizeof(float));
}

// A number of texts by one model.
struct Writer {
  Writer(const ModelOptions& model, int texts, int threads = 1)
      : device(make_cpu_device(threads)), generator(model, *device, texts) {
    std::ranges::for_each(generator.weights(), fill);
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

INSTANTIATE_TEST_SUITE_P(Generator, TogetherOrAlone,
                         ::testing::Values("gpt", "llama", "experts", "lstm", "seq2seq", "lstm_seq2seq"));

TEST(Generator, ASourceThatIsTooLongIsRefused) {
  Writer writer(model_of_family("seq2seq"), 1);
  const std::vector<int32_t> source(78, 1);
  EXPECT_THAT(error_of([&] { writer.generator.begin(0, source); }), HasSubstr("79 tokens with its end"));
  writer.generator.begin(0, std::span(source).first(77));
  writer.generator.begin(0, {});  // a source of its end alone
}

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

// The logits after each of some tokens, of two texts that go on together.
std::vector<float> logits_of(const ModelOptions& model, const RankOptions& ranks) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Generator generator(model, *device, 2, ranks);
  std::ranges::for_each(generator.weights(), fill);
  std::vector<float> all;
  for (const int text : {0, 1}) generator.begin(text, prompt_of(3 * text));
  for (int token = 0; token < 20; ++token) {
    for (const int text : {0, 1}) {
      while (generator.unread(text) > 0) generator.read(text);
    }
    const std::span<const float> logits = generator.next(std::vector{1, 0});
    all.insert(all.end(), logits.begin(), logits.end());
    for (const int text : {0, 1}) generator.append(text, (7 * token + text) % 60);
  }
  return all;
}

class SharedModel : public ::testing::TestWithParam<const char*> {};

TEST_P(SharedModel, RanksHaveTheLogitsOfOne) {
  const ModelOptions model = model_of_family(GetParam());
  const std::vector<float> expected = logits_of(model, {});
  float largest = 0;
  for (const float logit : expected) largest = std::max(largest, std::abs(logit));
  const Plan plan = parse_plan(R"({"mesh": "tensor:2", "preset": "megatron"})", "plan");
  std::vector<std::vector<float>> found(2);
  comm::run_rank_threads(2, [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context);
    found[context.rank()] = logits_of(model, {plan, context.rank(), &communicator});
  });
  EXPECT_EQ(found[0], found[1]);
  ASSERT_EQ(found[0].size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(found[0][i], expected[i], 1e-5f * largest) << i;
}

TEST_P(SharedModel, EachRankKeepsItsHeads) {
  const Plan plan = parse_plan(R"({"mesh": "tensor:2", "preset": "megatron"})", "plan");
  comm::run_rank_threads(2, [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context);
    const std::unique_ptr<Device> device = make_cpu_device(1);
    const Generator generator(model_of_family(GetParam()), *device, 2, {plan, context.rank(), &communicator});
    for (const State& state : generator.program().states) {
      if (state.role == Role::kCache) {
        EXPECT_EQ(2 * state.type.shape[2], state.part.whole[2]) << state.name;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Generator, SharedModel, ::testing::Values("gpt", "llama", "experts"));

TEST(Generator, RefusesPlansThatItCanNotFollow) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const Plan plan{.mesh = Mesh({{"data", 2}})};
  EXPECT_THAT(error_of([&] { Generator(model_of_family("gpt"), *device, 1, RankOptions{plan}); }),
              HasSubstr("along the axis tensor alone"));
}

TEST(Generator, RefusesPromptsThatItCanNotRead) {
  Writer writer(model_of_family("gpt"), 1);
  EXPECT_THAT(error_of([&] { writer.generator.begin(0, {}); }), HasSubstr("prompt is empty"));
  EXPECT_THAT(error_of([&] { writer.generator.begin(0, std::vector{60}); }), HasSubstr("vocabulary of 60"));
}

}  // namespace
}  // namespace trireme
