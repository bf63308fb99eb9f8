// PCRE2 behind WordPattern and WordSplitter; see word_splitter.h. The text is checked for valid UTF-8
// here, once, because PCRE2's own check would run over the whole rest of the text at every word.
#include "trireme/data/word_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>

#include "trireme/base/error.h"

namespace trireme {
namespace {

constexpr size_t kJitStackBytes = size_t{8} << 20;

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

// The length of the valid character at the start of `text`; 0 when there is none.
size_t valid_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const auto continues = [&](size_t i) { return i < text.size() && (byte(i) & 0xc0) == 0x80; };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return continues(1) ? 2 : 0;
  if (lead >= 0xe0 && lead < 0xf0) {
    if (!continues(1) || !continues(2)) return 0;
    if (lead == 0xe0 && byte(1) < 0xa0) return 0;  // overlong
    if (lead == 0xed && byte(1) > 0x9f) return 0;  // surrogate
    return 3;
  }
  if (lead >= 0xf0 && lead < 0xf5) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    if (lead == 0xf0 && byte(1) < 0x90) return 0;  // overlong
    if (lead == 0xf4 && byte(1) > 0x8f) return 0;  // above U+10FFFF
    return 4;
  }
  return 0;
}

size_t invalid_prefix(std::string_view text) {
  size_t length = 0;
  while (length < text.size() && valid_character(text.substr(length)) == 0) ++length;
  return length;
}

}  // namespace

size_t valid_utf8_prefix(std::string_view text) {
  size_t length = 0;
  while (length < text.size()) {
    const size_t step = valid_character(text.substr(length));
    if (step == 0) break;
    length += step;
  }
  return length;
}

struct WordPattern::Compiled {
  pcre2_code* code = nullptr;
  ~Compiled() { pcre2_code_free(code); }
};

WordPattern::WordPattern(const std::string& pattern, std::string_view name)
    : compiled_(std::make_unique<Compiled>()) {
  int error = 0;
  PCRE2_SIZE position = 0;
  compiled_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &position, nullptr);
  if (compiled_->code == nullptr) {
    throw_error("{}: the word pattern does not compile at character {}: {}", name, position,
                message_of(error));
  }
  // Where PCRE2 has no JIT for the processor, matching is slower but the same: the result is not needed.
  pcre2_jit_compile(compiled_->code, PCRE2_JIT_COMPLETE);
}
WordPattern::~WordPattern() = default;

struct WordSplitter::Match {
  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
  explicit Match(const pcre2_code* code)
      : data(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(size_t{32} << 10, kJitStackBytes, nullptr)) {
    if (data == nullptr || context == nullptr || stack == nullptr)
      throw_error("out of memory for splitting text into words");
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Match() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

WordSplitter::WordSplitter(const WordPattern& pattern, std::string_view text)
    : pattern_(pattern), rest_(text), match_(std::make_unique<Match>(pattern.compiled_->code)) {}
WordSplitter::~WordSplitter() = default;

bool WordSplitter::next(std::string_view& word) {
  if (offset_ == run_.size()) {
    if (rest_.empty()) return false;
    const size_t invalid = invalid_prefix(rest_);
    if (invalid > 0) {
      word = rest_.substr(0, invalid);
      rest_.remove_prefix(invalid);
      return true;
    }
    const size_t valid = valid_utf8_prefix(rest_);
    run_ = rest_.substr(0, valid);
    rest_.remove_prefix(valid);
    offset_ = match_begin_ = match_end_ = 0;
  }
  if (offset_ == match_end_) {
    const int found =
        pcre2_match(pattern_.compiled_->code, reinterpret_cast<PCRE2_SPTR>(run_.data()), run_.size(), offset_,
                    PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match_->data, match_->context);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
      throw_error("splitting text into words failed: {}; is a word pattern of tokenizer.json too costly?",
                  message_of(found));
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match_->data);
    match_begin_ = found < 0 ? run_.size() : range[0];
    match_end_ = found < 0 ? run_.size() : range[1];
    // With \K a match may begin before the search or end before it begins; neither may repeat bytes.
    if (match_begin_ < offset_ || match_end_ <= match_begin_) match_begin_ = match_end_ = run_.size();
  }
  // What lies between two matches is a word as well.
  const size_t end = offset_ < match_begin_ ? match_begin_ : match_end_;
  word = run_.substr(offset_, end - offset_);
  offset_ = end;
  return true;
}

}  // namespace trireme
