// From tokens to the text that a client gets: the same that `trireme sample` prints (base/text.h,
// printable()), in parts that may be sent, up to a string that ends it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/data/tokenizer.h"

namespace trireme::serve {

class CompletionText {
 public:
  // The tokenizer must outlive it.
  CompletionText(const Tokenizer& tokenizer, std::vector<std::string> stops)
      : tokenizer_(tokenizer), stops_(std::move(stops)) {}

  // The text that is certain now: a character that is not complete waits, and so does the beginning of a
  // string that may end the text. Tokens behind the tokenizer's vocabulary are nothing.
  std::string add(int32_t token);
  std::string finish();  // the rest
  bool stopped() const { return stopped_; }

 private:
  std::string up_to_stop();

  const Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  std::string bytes_;  // of a character that is not complete
  std::string text_;   // that was not given yet
  bool stopped_ = false;
};

}  // namespace trireme::serve
