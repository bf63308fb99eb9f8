// A placement as `trireme place -o` writes it (report.h), read again.
#pragma once

#include <string>
#include <string_view>

#include "trireme/place/placement.h"

namespace trireme::place {

// Of this workflow. Throws Error with `origin` for what is no placement of it, as check() does too.
Placement parse_placement(std::string_view json, const Workflow& workflow, const std::string& origin);
Placement read_placement(const std::string& path, const Workflow& workflow);

}  // namespace trireme::place
