// Two kinds of failure only. `Error` is recoverable and speaks to a person: bad input, a file, a peer.
// It says what was found, what was expected and what to do next. TRIREME_CHECK guards invariants of
// our own; when one breaks the process prints both operands and aborts, because its state is not known.
#pragma once

#include <fmt/format.h>

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace trireme {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// throw_error("{}: {} tokens found, {} expected", path, found, expected);
template <typename... Args>
[[noreturn]] void throw_error(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

namespace internal {

[[noreturn]] void check_failed(const char* file, int line, const char* expression,
                               const std::string& operands);

template <typename T>
std::string operand_text(const T& value) {
  if constexpr (requires(std::ostringstream & out) { out << value; }) {
    std::ostringstream out;
    out << value;
    return out.str();
  } else {
    return "?";
  }
}

struct CheckResult {
  bool ok;
  std::string operands;
};

// Captures the left operand of a comparison so that both sides can be printed.
template <typename L>
struct CheckLeft {
  const L& left;
#define TRIREME_CHECK_OPERATOR(op)                                          \
  template <typename R>                                                     \
  CheckResult operator op(const R& right) const {                           \
    if (left op right) return {true, {}};                                   \
    return {false, operand_text(left) + " against " + operand_text(right)}; \
  }
  TRIREME_CHECK_OPERATOR(==)
  TRIREME_CHECK_OPERATOR(!=)
  TRIREME_CHECK_OPERATOR(<)
  TRIREME_CHECK_OPERATOR(<=)
  TRIREME_CHECK_OPERATOR(>)
  TRIREME_CHECK_OPERATOR(>=)
#undef TRIREME_CHECK_OPERATOR
  // A bare condition, without a comparison. Text is made of what failed alone: checks stand in inner loops.
  operator CheckResult() const {
    if (left) return {true, {}};
    return {false, operand_text(left)};
  }
};

struct CheckStart {
  template <typename L>
  CheckLeft<L> operator<<(const L& left) const {
    return {left};
  }
};

}  // namespace internal
}  // namespace trireme

// TRIREME_CHECK(a == b): aborts with the expression and the value of both operands when it is false.
// clang-format off
// NOLINTBEGIN(bugprone-macro-parentheses): without them, precedence parts the operands of the comparison
#define TRIREME_CHECK(condition)                                                                       \
  do {                                                                                                 \
    _Pragma("GCC diagnostic push")                                                                     \
    _Pragma("GCC diagnostic ignored \"-Wparentheses\"")                                                \
    _Pragma("GCC diagnostic ignored \"-Wsign-compare\"")                                               \
    const ::trireme::internal::CheckResult trireme_check = ::trireme::internal::CheckStart() << condition; \
    _Pragma("GCC diagnostic pop")                                                                      \
    if (!trireme_check.ok)                                                                             \
      ::trireme::internal::check_failed(__FILE__, __LINE__, #condition, trireme_check.operands);       \
  } while (false)
// NOLINTEND(bugprone-macro-parentheses)
// clang-format on
