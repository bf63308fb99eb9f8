// What gpt and llama have in common beside their layers: rules between their settings, and FLOPs.
#pragma once

#include <string>
#include <vector>

#include "trireme/models/options.h"

namespace trireme {

// Heads that do not share the features evenly.
std::vector<std::string> head_problems(const ModelOptions& options);

// 6N + 12·L·H·T, as everyone reports it; N without the table of positions.
double transformer_flops_per_token(const ModelOptions& options, int64_t parameters);

}  // namespace trireme
