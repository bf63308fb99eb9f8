// The text that is learned when no data is named.
#pragma once

#include <string>

namespace trireme::cli {

// The repository that this program was built from, or the folder it is run in when that is gone.
std::string default_text();

}  // namespace trireme::cli
