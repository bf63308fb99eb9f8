// Requests and their answers, without a network.
#include "trireme/serve/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trireme/base/text.h"
#include "trireme/serve/test_model.h"

namespace trireme::serve {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr const char* kToken = "0123456789abcdef";

class SiteOfTexts : public ::testing::Test {
 protected:
  http::Request request(const std::string& method, const std::string& path,
                        const std::string& body = "") const {
    return {.method = method,
            .path = path,
            .headers = {{"host", "localhost:1"}, {"authorization", std::string("Bearer ") + kToken}},
            .body = body};
  }
  http::Answer post(const std::string& body) {
    return site_.answer(request("POST", "/v1/completions", body));
  }
  // The status and code of an error.
  std::string refusal(const http::Request& asked) {
    const http::Answer answer = site_.answer(asked);
    const Json error = Json::parse(answer.body).at("error");
    EXPECT_TRUE(error.at("message").is_string() && error.at("type").is_string() && error.contains("param"));
    return fmt::format("{} {}", answer.status, error.at("code").get<std::string>());
  }
  std::string expected_text(const std::string& prompt, const SampleOptions& options) {
    TestModel alone(1);
    return printable(tokenizer_->decode(alone.tokens(tokenizer_->encode(prompt), options)));
  }

  const Limits limits_{.batch = 2, .tokens = 200};
  const std::shared_ptr<const Tokenizer> tokenizer_ = open_tokenizer("bytes", "");
  TestModel model_{2};
  TextEngine engine_{model_.generator, limits_};
  Site site_{"small", limits_, http::TokenGuard(kToken, {}), ServedText{engine_, *tokenizer_}, std::nullopt};
};

TEST_F(SiteOfTexts, Completes) {
  const http::Answer answer = post(
      R"({"model": "small", "prompt": "row", "max_tokens": 60, "temperature": 0.7, "top_k": 20, "seed": 9})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json body = Json::parse(answer.body);
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["model"], "small");
  EXPECT_EQ(body["choices"][0]["text"],
            expected_text("row", {.tokens = 60, .temperature = 0.7, .top_k = 20, .seed = 9}));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["usage"], (Json{{"prompt_tokens", 3}, {"completion_tokens", 60}, {"total_tokens", 63}}));
}

TEST_F(SiteOfTexts, StreamsTheSame) {
  const std::string asked = R"({"prompt": "row", "max_tokens": 60, "seed": 9, "echo": true, "stream": true,
                               "stream_options": {"include_usage": true}})";
  http::Answer answer = post(asked);
  ASSERT_EQ(answer.type, "text/event-stream");
  std::string text, reason;
  Json last;
  while (const std::optional<std::string> event = answer.parts()) {
    ASSERT_TRUE(event->starts_with("data: ") && event->ends_with("\n\n")) << *event;
    const std::string data = event->substr(6, event->size() - 8);
    if (data == "[DONE]") {
      EXPECT_FALSE(answer.parts());
      EXPECT_EQ(last["usage"]["completion_tokens"], 60);
      EXPECT_EQ(reason, "length");
      EXPECT_EQ(text, "row" + expected_text("row", {.tokens = 60, .temperature = 1, .seed = 9}));
      return;
    }
    last = Json::parse(data);
    if (last["choices"].empty()) continue;
    text += last["choices"][0]["text"].get<std::string>();
    if (last["choices"][0]["finish_reason"].is_string()) reason = last["choices"][0]["finish_reason"];
  }
  FAIL() << "no [DONE]";
}

TEST_F(SiteOfTexts, StopsAndSaysWhy) {
  const std::string whole = expected_text("row", {.tokens = 60, .temperature = 1, .seed = 9});
  const Json asked{{"prompt", "row"}, {"max_tokens", 60}, {"seed", 9}, {"stop", "\xef\xbf\xbd"}};
  const Json body = Json::parse(post(asked.dump()).body);
  EXPECT_EQ(body["choices"][0]["text"], whole.substr(0, whole.find("\xef\xbf\xbd")));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
}

TEST_F(SiteOfTexts, WithoutASeedTextsDiffer) {
  const std::string asked = R"({"prompt": "row", "max_tokens": 40})";
  EXPECT_NE(Json::parse(post(asked).body)["choices"], Json::parse(post(asked).body)["choices"]);
}

TEST_F(SiteOfTexts, LetsInWhoHasTheToken) {
  http::Request asked = request("GET", "/v1/models");
  EXPECT_EQ(site_.answer(asked).status, 200);
  asked.headers["authorization"] = "Bearer 0123456789abcdeX";
  EXPECT_EQ(refusal(asked), "401 invalid_api_key");
  asked.headers.erase("authorization");
  for (const char* path : {"/v1/models", "/metrics", "/v1/models/small"}) {
    asked.path = path;
    EXPECT_EQ(refusal(asked), "401 invalid_api_key") << path;
  }
  asked.path = "/health";
  EXPECT_EQ(site_.answer(asked).status, 200);
  asked.headers["host"] = "evil.example";
  EXPECT_EQ(refusal(asked), "403 unknown_host");
}

TEST_F(SiteOfTexts, SaysWhatIsWrong) {
  EXPECT_EQ(refusal(request("GET", "/v1/completions")), "405 method_not_allowed");
  EXPECT_EQ(refusal(request("POST", "/v1/models")), "405 method_not_allowed");
  EXPECT_EQ(refusal(request("GET", "/v2")), "404 not_found");
  EXPECT_EQ(refusal(request("POST", "/v1/chat/completions")), "404 not_found");
  EXPECT_EQ(refusal(request("POST", "/v1/classify", "{}")), "404 not_found");
  EXPECT_EQ(refusal(request("GET", "/v1/models/large")), "404 model_not_found");
  EXPECT_EQ(refusal(request("POST", "/v1/completions", R"({"prompt": "a", "model": "large"})")),
            "404 model_not_found");
  EXPECT_EQ(refusal(request("POST", "/v1/completions", "{")), "400 invalid_value");
  EXPECT_EQ(refusal(request("POST", "/v1/completions", R"({"prompt": ""})")), "400 invalid_value");
  EXPECT_EQ(refusal(request("POST", "/v1/completions", R"({"prompt": [256]})")), "400 invalid_value");
  EXPECT_EQ(refusal(request("POST", "/v1/completions", R"({"prompt": [256], "echo": true})")),
            "400 invalid_value");
  http::Request large = request("POST", "/v1/completions");
  large.has = http::Request::Body::kTooLarge;
  EXPECT_EQ(refusal(large), "413 request_too_large");
  engine_.drain(10);
  site_.close();
  EXPECT_EQ(refusal(request("POST", "/v1/completions", R"({"prompt": "a"})")), "503 shutting_down");
  EXPECT_EQ(site_.answer(request("GET", "/health")).status, 503);
}

TEST_F(SiteOfTexts, CountsForPrometheus) {
  post(R"({"prompt": "row", "max_tokens": 5})");
  post("{}");
  const std::string text = site_.answer(request("GET", "/metrics")).body;
  for (const char* line :
       {"trireme_serve_answers_total{status=\"200\"} 1\n", "trireme_serve_answers_total{status=\"400\"} 1\n",
        "trireme_serve_tokens_total 5\n", "trireme_serve_prompt_tokens_total 2\n",
        "trireme_serve_running 0\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

}  // namespace
}  // namespace trireme::serve
