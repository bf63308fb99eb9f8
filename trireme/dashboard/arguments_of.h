// Numbers in the query of a request. Throws Error where one is missing, or is none that it can be.
#pragma once

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/http/request.h"
#include "trireme/dashboard/runs.h"

namespace trireme::dashboard {

using http::Request;

inline double parse_number(std::string_view text, std::string_view name) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    throw_error("'{}' must be a number", name);
  return value;
}

inline double number_of(const Request& request, std::string_view name, double otherwise) {
  const std::string_view text = request.argument(name);
  return text.empty() ? otherwise : parse_number(text, name);
}

inline size_t run_number(std::string_view text, const Runs& runs) {
  size_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size() || number >= runs.size())
    throw_error("there is no such run; there are {}, numbered from 0", runs.size());
  return number;
}

// As many columns as a chart may have.
inline int columns_of(const Request& request) {
  return static_cast<int>(std::clamp(number_of(request, "columns", 1000), 1.0, 8192.0));
}

}  // namespace trireme::dashboard
