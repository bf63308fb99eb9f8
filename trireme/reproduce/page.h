// docs/decks.md: outcomes as a page. The test of the command compares both.
#pragma once

#include <span>
#include <string>

#include "trireme/reproduce/runner.h"

namespace trireme::reproduce {

std::string page_of(std::span<const Outcome> outcomes);

}  // namespace trireme::reproduce
