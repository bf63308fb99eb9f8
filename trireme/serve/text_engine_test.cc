// Many clients at a time: each gets the text that it would get alone, and limits hold.
#include "trireme/serve/text_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "trireme/serve/request_error.h"
#include "trireme/serve/test_model.h"

namespace trireme::serve {
namespace {

using ::testing::HasSubstr;
using End = WrittenText::End;

constexpr int64_t kEndless = int64_t{1} << 40;

TextJob job_of(int number) {
  TextJob job{.prompt = std::vector<int32_t>(static_cast<size_t>(1 + 7 * number % 60), 65 + number % 26)};
  job.options = {.tokens = 1 + 5 * number % 40, .temperature = 1, .seed = static_cast<uint64_t>(number)};
  return job;
}

std::vector<int32_t> all_of(WrittenText& text) {
  std::vector<int32_t> tokens;
  while (const std::optional<int32_t> token = text.next()) tokens.push_back(*token);
  return tokens;
}

int status_of(TextEngine& engine, TextJob job) {
  try {
    engine.submit(std::move(job));
  } catch (const RequestError& error) {
    return error.status;
  }
  return 200;
}

TEST(TextEngine, EveryClientGetsItsText) {
  constexpr int kClients = 8, kEach = 10;
  TestModel alone(1), together(3);
  std::vector<std::vector<std::vector<int32_t>>> found(kClients);
  TextEngine engine(together.generator, {.batch = 3, .read_tokens = 16});
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < kEach; ++i) {
        const std::shared_ptr<WrittenText> text = engine.submit(job_of(kEach * client + i));
        found[client].push_back(all_of(*text));
        EXPECT_EQ(text->end(), End::kLength);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  int64_t tokens = 0;
  for (int number = 0; number < kClients * kEach; ++number) {
    const TextJob job = job_of(number);
    EXPECT_EQ(found[number / kEach][number % kEach], alone.tokens(job.prompt, job.options)) << number;
    tokens += job.options.tokens;
  }
  const TextEngine::Counts counts = engine.counts();
  EXPECT_EQ(counts.texts, kClients * kEach);
  EXPECT_EQ(counts.tokens, tokens);
  EXPECT_LT(counts.steps, tokens);  // several at a time
  EXPECT_EQ(counts.running + counts.waiting, 0);
}

TEST(TextEngine, EndsAtTheTokenThatEndsTexts) {
  TestModel alone(1), model(1);
  TextJob job = job_of(3);
  job.options.tokens = 30;
  const std::vector<int32_t> whole = alone.tokens(job.prompt, job.options);
  job.end = whole[11];
  const auto first = std::ranges::find(whole, whole[11]);
  TextEngine engine(model.generator, {.batch = 1});
  const std::shared_ptr<WrittenText> text = engine.submit(job);
  EXPECT_EQ(all_of(*text), std::vector<int32_t>(whole.begin(), first));
  EXPECT_EQ(text->end(), End::kEndOfText);
}

TEST(TextEngine, RefusesWhatDoesNotFit) {
  TestModel model(1);
  TextEngine engine(model.generator, {.batch = 1, .waiting = 2});
  TextJob endless = job_of(1);
  endless.options.tokens = kEndless;
  const std::shared_ptr<WrittenText> running = engine.submit(endless);
  ASSERT_TRUE(running->next());  // so that the queue is empty
  EXPECT_EQ(status_of(engine, endless), 200);
  EXPECT_EQ(status_of(engine, endless), 200);
  EXPECT_EQ(status_of(engine, endless), 429);
  EXPECT_EQ(engine.counts().waiting, 2);
  TextJob wrong = job_of(1);
  wrong.prompt = {256};
  EXPECT_THAT([&] { engine.submit(wrong); }, testing::ThrowsMessage<Error>(HasSubstr("vocabulary of 256")));
  wrong.prompt = {};
  EXPECT_THAT([&] { engine.submit(wrong); }, testing::ThrowsMessage<Error>(HasSubstr("prompt is empty")));
  EXPECT_EQ(engine.drain(0), 3);
  EXPECT_EQ(status_of(engine, job_of(1)), 503);
  while (running->next()) {
  }
  EXPECT_EQ(running->end(), End::kShutdown);
}

TEST(TextEngine, APlaceIsFreeWhenItsClientHasGone) {
  TestModel model(1);
  TextEngine engine(model.generator, {.batch = 1});
  TextJob endless = job_of(1);
  endless.options.tokens = kEndless;
  const std::shared_ptr<WrittenText> left = engine.submit(endless);
  ASSERT_TRUE(left->next());
  left->leave();
  EXPECT_EQ(std::ssize(all_of(*engine.submit(job_of(2)))), job_of(2).options.tokens);
}

TEST(TextEngine, NoTextTakesMoreThanItsTime) {
  TestModel model(1);
  TextEngine engine(model.generator, {.batch = 1, .seconds = 0.2});
  TextJob endless = job_of(1);
  endless.options.tokens = kEndless;
  const std::shared_ptr<WrittenText> text = engine.submit(endless), waiting = engine.submit(endless);
  EXPECT_FALSE(all_of(*text).empty());
  EXPECT_EQ(text->end(), End::kTime);
  all_of(*waiting);
  EXPECT_EQ(waiting->end(), End::kTime);
}

TEST(TextEngine, DrainFinishesWhatIsUnderWay) {
  TestModel model(2);
  TextEngine engine(model.generator, {.batch = 2});
  std::vector<std::shared_ptr<WrittenText>> texts;
  for (int number = 0; number < 6; ++number) texts.push_back(engine.submit(job_of(number)));
  EXPECT_EQ(engine.drain(60), 0);
  for (int number = 0; number < 6; ++number) {
    EXPECT_EQ(std::ssize(all_of(*texts[number])), job_of(number).options.tokens);
    EXPECT_EQ(texts[number]->end(), End::kLength);
  }
}

}  // namespace
}  // namespace trireme::serve
