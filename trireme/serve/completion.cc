// See completion.h.
#include "trireme/serve/completion.h"

#include <nlohmann/json.hpp>

#include "trireme/serve/request_error.h"

namespace trireme::serve {
namespace {

using OrderedJson = nlohmann::ordered_json;
using End = WrittenText::End;

std::string dumped(const OrderedJson& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string event(const std::string& data) {
  return "data: " + data + "\n\n";
}

OrderedJson body(const Completion::About& about, const std::string& text, const OrderedJson& reason) {
  return {
      {"id", about.id},
      {"object", "text_completion"},
      {"created", about.created},
      {"model", about.model},
      {"choices", OrderedJson::array(
                      {{{"index", 0}, {"text", text}, {"logprobs", nullptr}, {"finish_reason", reason}}})}};
}

OrderedJson usage_of(int64_t prompt, int64_t tokens) {
  return {{"prompt_tokens", prompt}, {"completion_tokens", tokens}, {"total_tokens", prompt + tokens}};
}

}  // namespace

std::string error_json(int status, const std::string& code, const std::string& message,
                       const std::string& param) {
  const char* type = status == 401 || status == 403 ? "authentication_error"
                     : status == 429                ? "rate_limit_error"
                     : status >= 500                ? "server_error"
                                                    : "invalid_request_error";
  OrderedJson error{{"message", message}, {"type", type}, {"param", nullptr}, {"code", code}};
  if (!param.empty()) error["param"] = param;
  return dumped({{"error", error}});
}

std::string Completion::next_text() {
  while (!text_.stopped()) {
    const std::optional<int32_t> token = written_->next();
    if (!token) return text_.finish();
    ++tokens_;
    std::string text = text_.add(*token);
    if (!text.empty()) return text;
  }
  return "";
}

std::string Completion::reason() const {
  if (text_.stopped()) return "stop";
  switch (written_->end()) {
    case End::kLength:
      return "length";
    case End::kEndOfText:
      return "stop";
    case End::kShutdown:
      throw RequestError(503, "shutting_down", "the server was shut down before the text was complete");
    case End::kTime:
      throw RequestError(504, "timeout",
                         "the text was not complete in the time that the server gives a request");
    case End::kOpen:
    case End::kProblem:
      break;
  }
  throw RequestError(500, "internal_error", written_->problem());
}

std::string Completion::whole() {
  std::string text = about_.echo;
  for (std::string more = next_text(); !more.empty(); more = next_text()) text += more;
  OrderedJson answer = body(about_, text, reason());
  answer["usage"] = usage_of(about_.prompt_tokens, tokens_);
  return dumped(answer);
}

std::optional<std::string> Completion::next_event() {
  try {
    if (at_ == At::kText) {
      if (!echoed_ && !about_.echo.empty()) {
        echoed_ = true;
        return event(dumped(body(about_, about_.echo, nullptr)));
      }
      const std::string text = next_text();
      if (!text.empty()) return event(dumped(body(about_, text, nullptr)));
      at_ = At::kReason;
    }
    if (at_ == At::kReason) {
      at_ = about_.include_usage ? At::kUsage : At::kDone;
      return event(dumped(body(about_, "", reason())));
    }
  } catch (const RequestError& error) {
    at_ = At::kEnd;
    return event(error_json(error.status, error.code, error.what()));
  }
  if (at_ == At::kUsage) {
    at_ = At::kDone;
    OrderedJson last = body(about_, "", nullptr);
    last["choices"] = OrderedJson::array();
    last["usage"] = usage_of(about_.prompt_tokens, tokens_);
    return event(dumped(last));
  }
  if (at_ == At::kEnd) return {};
  at_ = At::kEnd;
  return event("[DONE]");
}

}  // namespace trireme::serve
