// What gpt and llama have in common beside their layers: rules between their settings.
#pragma once

#include <string>
#include <vector>

#include "trireme/models/options.h"

namespace trireme {

// Heads that do not share the features evenly.
std::vector<std::string> head_problems(const ModelOptions& options);

}  // namespace trireme
