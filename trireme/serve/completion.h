// A completion under way: from the tokens of an engine to what its client gets, whole or as server-sent
// events.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "trireme/serve/completion_text.h"
#include "trireme/serve/text_engine.h"

namespace trireme::serve {

class Completion {
 public:
  struct About {
    std::string id, model;
    int64_t created = 0, prompt_tokens = 0;
    std::string echo;  // what stands before the completion
    bool include_usage = false;
  };
  Completion(About about, std::shared_ptr<WrittenText> written, CompletionText text)
      : about_(std::move(about)), written_(std::move(written)), text_(std::move(text)) {}
  ~Completion() { written_->leave(); }
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  // All of it, which is waited for. Throws RequestError if it was broken off.
  std::string whole();
  // The next event; nothing after the last one. What goes wrong is an event too.
  std::optional<std::string> next_event();

 private:
  std::string next_text();     // some of it, which is waited for; "" when it has ended
  std::string reason() const;  // why it ended; throws RequestError if it was broken off

  const About about_;
  const std::shared_ptr<WrittenText> written_;
  CompletionText text_;
  int64_t tokens_ = 0;
  enum class At { kText, kReason, kUsage, kDone, kEnd } at_ = At::kText;
  bool echoed_ = false;
};

// The body of an error.
std::string error_json(int status, const std::string& code, const std::string& message,
                       const std::string& param = "");

}  // namespace trireme::serve
