// JSON from outside. For those who include nlohmann-json and link it.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "trireme/base/error.h"

namespace trireme {

// A discarded value when the text is not JSON; the caller says so in its own words. Throws Error when values
// are nested deeper than `most_levels`: whoever copies, compares or prints such a tree does so level by
// level, and would overflow the stack. `where` is for the message.
template <typename Json = nlohmann::json>
Json parse_json(std::string_view text, std::string_view where, int most_levels = 64) {
  const auto check_depth = [&](int depth, typename Json::parse_event_t, const Json&) {
    if (depth > most_levels)
      throw_error("{}: values within values, more than {} levels deep; the file is damaged or something else",
                  where, most_levels);
    return true;
  };
  return Json::parse(text, check_depth, /*allow_exceptions=*/false);
}

}  // namespace trireme
