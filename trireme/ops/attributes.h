// Which attributes an op of a model may be given. A misspelt one would otherwise be ignored and its
// default taken.
#pragma once

#include <string_view>

#include "trireme/ir/attrs.h"

namespace trireme {

// Throws an Error where an op has no attribute of this name, with the nearest one that it has. Checks the ops
// that models are made of, and not those that passes add.
void check_attributes(std::string_view op, const Attrs& attrs);

// Whether it knows the op.
bool has_known_attributes(std::string_view op);

}  // namespace trireme
