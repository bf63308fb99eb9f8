// See map_code.h.
#include "trireme/ir/map_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "trireme/base/error.h"

namespace trireme {
namespace {

// Reads the text from front to back.
class Reader {
 public:
  explicit Reader(std::string_view text) : whole_(text), left_(text) {}

  bool done() {
    skip_spaces();
    return left_.empty();
  }
  bool take(char c) {
    skip_spaces();
    if (left_.empty() || left_.front() != c) return false;
    left_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(fmt::format("'{}'", c));
  }
  std::string word() {
    skip_spaces();
    const auto is_part = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
    const size_t size = static_cast<size_t>(std::ranges::find_if_not(left_, is_part) - left_.begin());
    if (size == 0) fail("a name");
    const std::string result(left_.substr(0, size));
    left_.remove_prefix(size);
    return result;
  }
  template <typename Number>
  Number number() {
    skip_spaces();
    Number result{};
    const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), result);
    if (error != std::errc()) fail("a number");
    left_.remove_prefix(static_cast<size_t>(end - left_.data()));
    return result;
  }
  [[noreturn]] void fail(const std::string& expected) const {
    throw_error("[map] in the code '{}', {} expected at '{}'", whole_, expected, left_);
  }

 private:
  void skip_spaces() { left_.remove_prefix(std::min(left_.find_first_not_of(' '), left_.size())); }
  std::string_view whole_, left_;
};

}  // namespace

MapCode MapCode::of(const Attrs& attrs, int inputs) {
  MapCode code{.inputs = inputs};
  Reader text(attrs.text("code"));
  do {
    Instruction one{.op = text.word()};
    text.expect('(');
    do {
      const int operand = text.number<int>(), known = inputs + static_cast<int>(code.instructions.size());
      if (operand < 0 || operand >= known) text.fail(fmt::format("an operand below {}", known));
      one.operands.push_back(operand);
    } while (text.take(','));
    text.expect(')');
    while (!text.done() && !text.take(';')) {
      const std::string name = text.word();
      text.expect('=');
      one.attrs.set(name, text.number<double>());
    }
    code.instructions.push_back(std::move(one));
  } while (!text.done());
  const int known = inputs + static_cast<int>(code.instructions.size());
  for (int64_t result : attrs.integers("results")) {
    if (result < inputs || result >= known)
      throw_error("[map] {} is no result of the code '{}'; expected {} to {}", result, attrs.text("code"),
                  inputs, known - 1);
    code.results.push_back(static_cast<int>(result));
  }
  if (code.results.empty())
    throw_error("[map] the code '{}' gives nothing out: `results` is empty", attrs.text("code"));
  return code;
}

Attrs MapCode::attrs() const {
  std::string text;
  for (const Instruction& one : instructions) {
    text += fmt::format("{}{}({})", text.empty() ? "" : "; ", one.op, fmt::join(one.operands, ", "));
    for (const auto& [name, value] : one.attrs.items())
      text += fmt::format(" {}={}", name, one.attrs.real(name));
  }
  return {{"code", text}, {"results", std::vector<int64_t>(results.begin(), results.end())}};
}

}  // namespace trireme
