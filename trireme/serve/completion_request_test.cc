// What clients may ask, and what they are told where they may not.
#include "trireme/serve/completion_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/serve/request_error.h"

namespace trireme::serve {
namespace {

using ::testing::HasSubstr;

const Limits kLimits{.waiting = 3, .tokens = 100};

TEST(CompletionRequest, HasOpenAisNamesAndDefaults) {
  const CompletionRequest plain = read_completion_request(R"({"prompt": "a"})", kLimits);
  EXPECT_EQ(std::get<std::string>(plain.prompt), "a");
  EXPECT_EQ(plain.options.tokens, 16);
  EXPECT_EQ(plain.options.temperature, 1);
  EXPECT_EQ(plain.options.top_p, 1);
  EXPECT_EQ(plain.options.top_k, 0);
  EXPECT_FALSE(plain.seed || plain.stream || plain.echo || plain.include_usage);

  const CompletionRequest full = read_completion_request(
      R"({"model": "m", "prompt": [3, 1], "max_tokens": 7, "temperature": 0, "top_p": 0.5, "top_k": 4, "seed": -1,
          "stop": ["x", "yz"], "stream": true, "stream_options": {"include_usage": true}, "echo": true,
          "ignore_eos": true, "n": 1, "logprobs": null, "presence_penalty": 0.0, "user": "me"})",
      kLimits);
  EXPECT_EQ(full.model, "m");
  EXPECT_EQ(std::get<std::vector<int32_t>>(full.prompt), (std::vector<int32_t>{3, 1}));
  EXPECT_EQ(full.options.tokens, 7);
  EXPECT_EQ(full.options.temperature, 0);
  EXPECT_EQ(full.options.top_p, 0.5);
  EXPECT_EQ(full.options.top_k, 4);
  EXPECT_EQ(full.seed, ~uint64_t{0});
  EXPECT_EQ(full.stop, (std::vector<std::string>{"x", "yz"}));
  EXPECT_TRUE(full.stream && full.echo && full.include_usage);
  EXPECT_EQ(full.at_end_of_text, CompletionRequest::AtEnd::kGoOn);
  EXPECT_EQ(read_completion_request(R"({"prompt": "", "stop": "."})", kLimits).stop,
            std::vector<std::string>{"."});
}

template <typename Read>
std::string told(const Read& read, const std::string& body) {
  try {
    read(body, kLimits);
  } catch (const RequestError& error) {
    EXPECT_EQ(error.status, 400) << body;
    return "[" + error.parameter + "] " + error.what();
  }
  return "accepted";
}

TEST(CompletionRequest, RefusesByTheNameOfTheKey) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "[] the request's body is no JSON object"},
      {"[1]", "no JSON object"},
      {R"({"prompt": "a"} x)", "no JSON object"},
      {"{}", "[prompt] there is no 'prompt'"},
      {R"({"prompt": 3})", "[prompt]"},
      {R"({"prompt": ["a", "b"]})", "several requests"},
      {R"({"prompt": [1, -1]})", "[prompt] 'prompt' has -1"},
      {R"({"prompt": [3000000000]})", "[prompt]"},
      {R"({"prompt": "a", "max_tokens": 101})",
       "[max_tokens] 'max_tokens' is 101; a whole number from 1 to 100"},
      {R"({"prompt": "a", "max_tokens": 0})", "[max_tokens]"},
      {R"({"prompt": "a", "max_tokens": 1.5})", "[max_tokens]"},
      {R"({"prompt": "a", "max_tokens": 18446744073709551615})", "[max_tokens]"},
      {R"({"prompt": "a", "temperature": -1})", "[temperature]"},
      {R"({"prompt": "a", "temperature": "hot"})", "[temperature] 'temperature' is \"hot\""},
      {R"({"prompt": "a", "top_p": 0})", "[top_p]"},
      {R"({"prompt": "a", "top_p": 1.1})", "[top_p]"},
      {R"({"prompt": "a", "seed": 9223372036854775808})", "[seed]"},
      {R"({"prompt": "a", "stream": 1})", "[stream]"},
      {R"({"prompt": "a", "stop": ""})", "[stop]"},
      {R"({"prompt": "a", "stop": [1]})", "[stop]"},
      {R"({"prompt": "a", "n": 2})", "[n] 'n' is 2, which is not supported"},
      {R"({"prompt": "a", "logprobs": 0})", "[logprobs]"},
      {R"({"prompt": "a", "stream_options": {"include": true}})", "[stream_options]"},
      {R"({"prompt": "a", "max_token": 3})", "did you mean 'max_tokens'?"},
      {R"({"prompt": [[[[[[[[[1]]]]]]]]]})", "levels deep"},
  };
  for (const auto& [body, expected] : cases)
    EXPECT_THAT(told(read_completion_request, body), HasSubstr(expected)) << body;
}

TEST(ClassifyRequest, TakesPixelsAndFiles) {
  const ClassifyRequest grey = read_classify_request(R"({"images": [[[[0, 255, 7]]]]})", kLimits);
  ASSERT_EQ(grey.images.size(), 1u);
  EXPECT_EQ(grey.images[0].height, 1);
  EXPECT_EQ(grey.images[0].width, 3);
  EXPECT_EQ(grey.images[0].pixels, (std::vector<uint8_t>{0, 0, 0, 255, 255, 255, 7, 7, 7}));
  const ClassifyRequest colour =
      read_classify_request(R"({"images": [[[[1], [4]], [[2], [5]], [[3], [6]]]]})", kLimits);
  EXPECT_EQ(colour.images[0].height, 2);
  EXPECT_EQ(colour.images[0].pixels, (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
  // A PNG of one grey pixel.
  const ClassifyRequest file = read_classify_request(
      R"({"images": ["iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="]})",
      kLimits);
  EXPECT_EQ(file.images[0].pixels.size(), 3u);
}

TEST(ClassifyRequest, RefusesWhatIsNoImage) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"images": []})", "no list of 1 to 3 images"},
      {R"({"images": [[[[1]]], [[[1]]], [[[1]]], [[[1]]]]})", "no list of 1 to 3 images"},
      {R"({"images": ["?"]})", "image 0 is no base64"},
      {R"({"images": ["AAAA"]})", "image 0"},
      {R"({"images": [[[[256]]]]})", "from 0 to 255"},
      {R"({"images": [[[[0.5]]]]})", "from 0 to 255"},
      {R"({"images": [[[[1]], [[1]]]]})", "one or three channels"},
      {R"({"images": [[[[1, 2], [1]]]]})", "of one size"},
      {R"({"images": [[[]]]})", "image 0"},
      {R"({"images": [3]})", "image 0"},
      {R"({"images": [{}]})", "image 0"},
      {R"({"image": [[[[1]]]]})", "did you mean 'images'?"},
  };
  for (const auto& [body, expected] : cases)
    EXPECT_THAT(told(read_classify_request, body), HasSubstr(expected)) << body;
}

}  // namespace
}  // namespace trireme::serve
