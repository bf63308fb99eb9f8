// Sizes as people write them: "8,1K,64K,1M".
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace trireme::cli {

// Numbers with K, M or G (1024 each), in ascending order, each once. "8-64M" are powers of four from the one
// to the other, and the other. Throws Error.
std::vector<size_t> parse_sizes(const std::string& text);
// The inverse, of one: "64K"; "1000" where no unit fits.
std::string size_text(size_t bytes);

}  // namespace trireme::cli
