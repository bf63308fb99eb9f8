// Whether a program fits into a device's memory, told before anything is allocated.
#pragma once

#include <cstddef>

#include "trireme/program/program.h"

namespace trireme {

// Throws an Error that names the three largest consumers, and what would help, when the program's planned
// peak is more than `free_bytes`.
void expect_room(const Program& program, size_t free_bytes);

}  // namespace trireme
