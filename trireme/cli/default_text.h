// The text that is learned when no data is named.
#pragma once

#include <string>

namespace trireme::cli {

// The repository that this program was built from; "" when that is gone.
std::string default_text();
std::string default_text(const std::string& source);  // when that was its folder

}  // namespace trireme::cli
