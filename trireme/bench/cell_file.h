// cell.json in the folder of a grid's run: what the run has shown, and the settings that it was made with.
#pragma once

#include <string>
#include <string_view>

#include "trireme/bench/batch_grid.h"

namespace trireme::bench {

struct StoredCell {
  std::string settings;
  CellResult result;  // without its cell, which the settings say
};

std::string render_cell(const StoredCell& cell);
// `file` is for messages. Throws Error.
StoredCell parse_cell(std::string_view text, std::string_view file);

}  // namespace trireme::bench
