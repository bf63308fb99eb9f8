// NVIDIA's libraries are loaded when they are first needed: they are hundreds of megabytes, and most programs
// and tests of this project never use them.
#pragma once

#include <string>

namespace trireme::cuda {

// Null where neither the system nor the toolkit that this was built with has the library.
void* open_library(const std::string& name);

}  // namespace trireme::cuda
