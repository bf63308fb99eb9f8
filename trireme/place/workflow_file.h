// Workflows as TOML files; docs/placement.md has all keys.
#pragma once

#include <string>
#include <string_view>

#include "trireme/place/workflow.h"

namespace trireme::place {

// Throw Error with file and line for what is no workflow, as check() does too.
Workflow parse_workflow(std::string_view toml, const std::string& origin);
Workflow read_workflow(const std::string& path);

}  // namespace trireme::place
