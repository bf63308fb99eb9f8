// See site.h.
#include "trireme/serve/site.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/serve/completion.h"
#include "trireme/serve/request_error.h"

namespace trireme::serve {
namespace {

using http::Answer;
using http::Request;

struct Route {
  const char *path, *method;
};
constexpr Route kRoutes[] = {{"/v1/completions", "POST"},
                             {"/v1/classify", "POST"},
                             {"/v1/models", "GET"},
                             {"/health", "GET"},
                             {"/metrics", "GET"}};
constexpr std::string_view kModels = "/v1/models/";

int64_t now_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Answer in_json(std::string body, int status = 200) {
  return {.status = status,
          .type = "application/json",
          .body = std::move(body),
          .headers = {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}}};
}

std::string json_text(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Answer in_json(const RequestError& error) {
  Answer answer = in_json(error_json(error.status, error.code, error.what(), error.parameter), error.status);
  if (error.status == 429 || error.status == 503) answer.headers.emplace_back("Retry-After", "1");
  if (error.status == 401) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  return answer;
}

void check_route(const Request& request) {
  std::string paths;
  for (const Route& route : kRoutes) {
    if (request.path == route.path) {
      if (request.method == route.method ||
          (request.method == "HEAD" && route.method == std::string_view("GET")))
        return;
      throw RequestError(
          405, "method_not_allowed",
          fmt::format("{} is for {}, not {}", route.path, route.method, printable(request.method)));
    }
    paths += fmt::format("{}{} {}", paths.empty() ? "" : ", ", route.method, route.path);
  }
  if (request.path.starts_with(kModels)) return;
  if (request.path == "/v1/chat/completions")
    throw RequestError(404, "not_found",
                       "conversations are not supported; send their text to /v1/completions");
  throw RequestError(
      404, "not_found",
      fmt::format("there is no {}; there are {}", printable(request.path).substr(0, 80), paths));
}

}  // namespace

Site::Site(std::string model, Limits limits, http::TokenGuard guard, std::optional<ServedText> text,
           std::optional<ServedImages> images)
    : model_(std::move(model)),
      limits_(limits),
      guard_(std::move(guard)),
      text_(text),
      images_(std::move(images)),
      created_(now_since_1970()),
      prefix_(http::new_token().substr(0, 12)) {}

void Site::check_model(const std::string& name) const {
  if (!name.empty() && name != model_)
    throw RequestError(
        404, "model_not_found",
        fmt::format("the model '{}' is not here; '{}' is", printable(name).substr(0, 80), model_), "model");
}

Answer Site::complete(const Request& request) {
  if (!text_) throw RequestError(404, "not_found", "this model classifies images: POST /v1/classify");
  const CompletionRequest asked = read_completion_request(request.body, limits_);
  check_model(asked.model);
  const Tokenizer& tokenizer = text_->tokenizer;
  const auto* tokens = std::get_if<std::vector<int32_t>>(&asked.prompt);
  TextJob job{.prompt = tokens ? *tokens : tokenizer.encode(std::get<std::string>(asked.prompt)),
              .options = asked.options,
              .end = asked.at_end_of_text == CompletionRequest::AtEnd::kStop ? tokenizer.end_of_text()
                                                                             : std::nullopt};
  const int64_t number = ++completions_;
  // Whoever wants the same text again names a seed.
  job.options.seed = asked.seed ? *asked.seed : std::stoull(http::new_token().substr(0, 15), nullptr, 16);
  Completion::About about{.id = fmt::format("cmpl-{}-{}", prefix_, number),
                          .model = model_,
                          .created = now_since_1970(),
                          .prompt_tokens = std::ssize(job.prompt),
                          .echo = "",
                          .include_usage = asked.include_usage};
  std::shared_ptr<WrittenText> written;
  try {
    if (asked.echo)
      about.echo = printable(tokens ? tokenizer.decode(*tokens) : std::get<std::string>(asked.prompt));
    written = text_->engine.submit(std::move(job));
  } catch (const RequestError&) {
    throw;
  } catch (const Error& error) {
    throw RequestError(400, "invalid_value", error.what(), "prompt");
  }
  auto completion = std::make_shared<Completion>(std::move(about), std::move(written),
                                                 CompletionText(tokenizer, asked.stop));
  if (!asked.stream) return in_json(completion->whole());
  return {.type = "text/event-stream",
          .headers = {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}},
          .parts = [completion] { return completion->next_event(); }};
}

Answer Site::classify(const Request& request) {
  if (!images_) throw RequestError(404, "not_found", "this model writes text: POST /v1/completions");
  const ClassifyRequest asked = read_classify_request(request.body, limits_);
  check_model(asked.model);
  std::vector<std::vector<float>> images;
  for (const Image& image : asked.images) images.push_back(formed(image, images_->form));
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(limits_.seconds));
  nlohmann::ordered_json predictions = nlohmann::ordered_json::array();
  for (std::future<std::vector<float>>& one : images_->engine.submit(std::move(images))) {
    if (one.wait_until(end) != std::future_status::ready)
      throw RequestError(504, "timeout",
                         "the images were not classified in the time that the server gives a request");
    const std::vector<float> shares = one.get();
    const auto index = static_cast<size_t>(std::ranges::max_element(shares) - shares.begin());
    predictions.push_back({{"index", index},
                           {"label", index < images_->classes.size() ? images_->classes[index]
                                                                     : fmt::format("class {}", index)},
                           {"probability", shares[index]},
                           {"probabilities", shares}});
  }
  return in_json(json_text({{"model", model_}, {"predictions", std::move(predictions)}}));
}

Answer Site::models(const Request& request) const {
  if (request.path.starts_with(kModels)) check_model(request.path.substr(kModels.size()));
  const nlohmann::ordered_json model{
      {"id", model_}, {"object", "model"}, {"created", created_}, {"owned_by", "trireme"}};
  if (request.path.starts_with(kModels)) return in_json(json_text(model));
  return in_json(json_text({{"object", "list"}, {"data", nlohmann::ordered_json::array({model})}}));
}

std::string Site::metrics() const {
  std::string text;
  const auto add = [&](const char* name, const char* type, const char* help, auto value) {
    text += fmt::format("# HELP trireme_serve_{0} {1}\n# TYPE trireme_serve_{0} {2}\ntrireme_serve_{0} {3}\n",
                        name, help, type, value);
  };
  {
    const std::scoped_lock lock(mutex_);
    text +=
        "# HELP trireme_serve_answers_total Answers by HTTP status.\n# TYPE trireme_serve_answers_total counter\n";
    for (const auto& [status, number] : answers_)
      text += fmt::format("trireme_serve_answers_total{{status=\"{}\"}} {}\n", status, number);
  }
  if (text_) {
    const TextEngine::Counts counts = text_->engine.counts();
    add("texts_total", "counter", "Texts that were taken.", counts.texts);
    add("prompt_tokens_total", "counter", "Tokens of prompts that were read before the last one of each.",
        counts.read_tokens);
    add("tokens_total", "counter", "Tokens that were generated.", counts.tokens);
    add("steps_total", "counter", "Forward passes that added a token to each text under way.", counts.steps);
    add("running", "gauge", "Texts under way.", counts.running);
    add("waiting", "gauge", "Texts that wait for a place.", counts.waiting);
  }
  if (images_) {
    const ImageEngine::Counts counts = images_->engine.counts();
    add("images_total", "counter", "Images that were classified.", counts.images);
    add("batches_total", "counter", "Forward passes over images.", counts.batches);
    add("waiting", "gauge", "Images that wait.", counts.waiting);
  }
  return text;
}

Answer Site::route(const Request& request) {
  if (!guard_.knows_host(request))
    throw RequestError(
        403, "unknown_host",
        "this host name is not known here; use the address that `trireme serve` printed, or start it "
        "with --allow-host NAME");
  check_route(request);
  if (request.path == "/health")
    return closed_ ? in_json(R"({"status":"shutting down"})", 503) : in_json(R"({"status":"ok"})");
  if (!guard_.token().empty() && !guard_.has_bearer(request))
    throw RequestError(
        401, "invalid_api_key",
        "no token, or not the right one; send `Authorization: Bearer TOKEN` with the token that "
        "`trireme serve` printed or was given");
  if (request.has == Request::Body::kTooLarge)
    throw RequestError(413, "request_too_large",
                       "the request's body is larger than this server takes (--max-body)");
  if (request.path == "/metrics")
    return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics()};
  if (request.path.starts_with("/v1/models")) return models(request);
  return request.path == "/v1/classify" ? classify(request) : complete(request);
}

void Site::count(int status) {
  const std::scoped_lock lock(mutex_);
  ++answers_[status];
}

Answer Site::answer(const Request& request) {
  Answer answer;
  try {
    answer = route(request);
  } catch (const RequestError& error) {
    answer = in_json(error);
  } catch (const std::exception& error) {
    answer = in_json(error_json(500, "internal_error", error.what()), 500);
  }
  // A connection that stays open would be waited for.
  if (closed_) answer.headers.emplace_back("Connection", "close");
  count(answer.status);
  return answer;
}

}  // namespace trireme::serve
