// Pictures as files.
#pragma once

#include <string>

namespace trireme::cli {

// Throws Error when it can not be written.
void write_picture(const std::string& path, const std::string& svg);

}  // namespace trireme::cli
