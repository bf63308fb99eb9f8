// Cuts text into the words within which BPE merges, by a PCRE2 pattern compiled to machine code. Bytes
// that are not valid UTF-8 match no pattern; each run of them becomes a word of its own, so that the
// words laid end to end are always the text.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace trireme {

class WordPattern {
 public:
  // Throws Error when the pattern does not compile; `name` says where it came from.
  WordPattern(const std::string& pattern, std::string_view name);
  ~WordPattern();

 private:
  friend class WordSplitter;
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

// One pass over one text. Not for use by two threads at once; the pattern may be shared.
class WordSplitter {
 public:
  WordSplitter(const WordPattern& pattern, std::string_view text);
  ~WordSplitter();

  bool next(std::string_view& word);  // false at the end of the text

 private:
  struct Match;
  const WordPattern& pattern_;
  std::string_view rest_;                   // after the current run of valid UTF-8
  std::string_view run_;                    // the current run
  size_t offset_ = 0;                       // in run_: words before it have been handed out
  size_t match_begin_ = 0, match_end_ = 0;  // in run_: a match found but not yet handed out
  std::unique_ptr<Match> match_;
};

// The length of the longest prefix that is valid UTF-8 (no overlong forms, no surrogates).
size_t valid_utf8_prefix(std::string_view text);

}  // namespace trireme
