// What the server answers.
//
//   POST /v1/completions   text that goes on from a prompt, as OpenAI's API has it; with "stream" as it comes
//   POST /v1/classify      the classes of images
//   GET  /v1/models        the one model that is served
//   GET  /health           200 while requests are taken, without a token
//   GET  /metrics          numbers for Prometheus
//
// Errors are JSON in OpenAI's form: {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "trireme/data/tokenizer.h"
#include "trireme/http/request.h"
#include "trireme/http/token_guard.h"
#include "trireme/serve/completion_request.h"
#include "trireme/serve/image_engine.h"
#include "trireme/serve/text_engine.h"

namespace trireme::serve {

// Of the two kinds of models one; both outlive the site.
struct ServedText {
  TextEngine& engine;
  const Tokenizer& tokenizer;
};
struct ServedImages {
  ImageEngine& engine;
  ImageForm form;
  std::vector<std::string> classes;  // names by label, as far as they are known
};

class Site {
 public:
  // `model` is the name that clients call it by. No guard: everybody is let in who names this host.
  Site(std::string model, Limits limits, http::TokenGuard guard, std::optional<ServedText> text,
       std::optional<ServedImages> images);

  // May be called by several threads; waits for what is computed.
  http::Answer answer(const http::Request& request);
  // From now on /health says that nothing more is taken.
  void close() { closed_ = true; }

 private:
  http::Answer route(const http::Request& request);
  http::Answer complete(const http::Request& request);
  http::Answer classify(const http::Request& request);
  http::Answer models(const http::Request& request) const;
  std::string metrics() const;
  void check_model(const std::string& name) const;
  void count(int status);

  const std::string model_;
  const Limits limits_;
  const http::TokenGuard guard_;
  const std::optional<ServedText> text_;
  const std::optional<ServedImages> images_;
  const int64_t created_;     // seconds since 1970
  const std::string prefix_;  // of the ids of completions
  std::atomic<int64_t> completions_ = 0;
  std::atomic<bool> closed_ = false;
  mutable std::mutex mutex_;
  std::map<int, int64_t> answers_;  // by status
};

}  // namespace trireme::serve
