// `trireme plan --fit`, which has other arguments than the search.
#pragma once

#include <span>
#include <string>

namespace trireme::cli {

bool asks_for_fit(std::span<const std::string> arguments);
int plan_fit(std::span<const std::string> arguments);

}  // namespace trireme::cli
