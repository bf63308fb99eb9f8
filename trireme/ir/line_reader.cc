// A small recursive-descent reader; see line_reader.h.
#include "trireme/ir/line_reader.h"

#include <cctype>
#include <charconv>

#include "trireme/base/error.h"

namespace trireme {
namespace {

bool is_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}
bool is_in_name(char c) {
  return is_letter(c) || std::string_view("._~-/").find(c) != std::string_view::npos;
}

}  // namespace

void LineReader::skip() {
  while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) ++at_;
}

void LineReader::expect_end() const {
  if (!done()) throw_error("text left over at the end of the statement: '{}'", rest());
}

bool LineReader::take(std::string_view token) {
  if (!line_.substr(at_).starts_with(token)) return false;
  at_ += token.size();
  skip();
  return true;
}

void LineReader::expect(std::string_view token) {
  if (!take(token)) throw_error("'{}' expected at '{}'", token, rest());
}

std::string LineReader::word() {
  const size_t begin = at_;
  while (at_ < line_.size() && is_in_name(line_[at_])) ++at_;
  std::string result(line_.substr(begin, at_ - begin));
  skip();
  return result;
}

std::string LineReader::name() {
  std::string result = word();
  if (result.empty()) throw_error("a name expected at '{}'", rest());
  return result;
}

std::string LineReader::value_name() {
  if (at_ >= line_.size() || line_[at_] != '%') throw_error("a value (%name) expected at '{}'", rest());
  ++at_;
  return name();
}

int64_t LineReader::integer() {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(line_.data() + at_, line_.data() + line_.size(), value);
  if (error != std::errc()) throw_error("an integer expected at '{}'", rest());
  at_ = static_cast<size_t>(end - line_.data());
  skip();
  return value;
}

std::vector<int64_t> LineReader::integers() {
  std::vector<int64_t> result;
  expect("[");
  while (!take("]")) {
    if (!result.empty()) expect(",");
    result.push_back(integer());
  }
  return result;
}

TensorType LineReader::type() {
  const size_t begin = at_;
  while (at_ < line_.size() && is_letter(line_[at_])) ++at_;
  const std::string_view text = line_.substr(begin, at_ - begin);
  const std::optional<DType> dtype = parse_dtype(text);
  if (!dtype) throw_error("'{}' is no number format; f32, f16, bf16, f64, i64, i32 or u8 expected", text);
  TensorType result{*dtype, {}};
  for (int64_t extent : integers()) {
    if (extent < 0) throw_error("extent {} is negative", extent);
    if (result.shape.rank() == Shape::kMaxDims)
      throw_error("a tensor has at most {} dims, more are given", Shape::kMaxDims);
    result.shape.push_back(extent);
  }
  if (!has_possible_size(result.shape))
    throw_error("{} has more than 2^48 elements", to_string(result.shape));
  return result;
}

Attrs LineReader::attrs() {
  Attrs result;
  if (!take("{")) return result;
  while (!take("}")) {
    if (!result.empty()) expect(",");
    const std::string key = name();
    expect("=");
    if (result.has(key)) throw_error("attribute '{}' is given twice", key);
    result.set(key, attr_value());
  }
  return result;
}

AttrValue LineReader::attr_value() {
  if (at_ < line_.size() && line_[at_] == '[') return integers();
  if (at_ < line_.size() && line_[at_] == '"') return quoted();
  const size_t begin = at_;
  while (at_ < line_.size() && (std::isalnum(static_cast<unsigned char>(line_[at_])) || line_[at_] == '.' ||
                                line_[at_] == '-' || line_[at_] == '+'))
    ++at_;
  const std::string_view text = line_.substr(begin, at_ - begin);
  skip();
  const char* last = text.data() + text.size();
  int64_t integer = 0;
  if (const auto [end, error] = std::from_chars(text.data(), last, integer);
      error == std::errc() && end == last && !text.empty())
    return integer;
  double real = 0;
  if (const auto [end, error] = std::from_chars(text.data(), last, real);
      error == std::errc() && end == last && !text.empty())
    return real;
  throw_error("'{}' is no attribute value; a number, \"text\" or [integers] expected", text);
}

std::string LineReader::quoted() {
  std::string result;
  for (++at_; at_ < line_.size() && line_[at_] != '"'; ++at_) {
    if (line_[at_] == '\\' && at_ + 1 < line_.size()) {
      ++at_;
      result += line_[at_] == 'n' ? '\n' : line_[at_];
    } else {
      result += line_[at_];
    }
  }
  if (at_ == line_.size()) throw_error("a text is not closed by '\"'");
  ++at_;
  skip();
  return result;
}

}  // namespace trireme
