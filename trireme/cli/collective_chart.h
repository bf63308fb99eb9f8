// The picture of `trireme bench collectives`: time against size.
#pragma once

#include <string>
#include <vector>

#include "trireme/bench/collective_timing.h"

namespace trireme::cli {

// SVG, log-log: a line for each algorithm, the prediction dashed over it. The automatic choice is drawn as
// rings around what it chose. Throws Error when the file cannot be written.
void write_collective_chart(const std::string& path, const std::string& title, const std::string& subtitle,
                            const std::vector<bench::CollectiveTime>& times);

}  // namespace trireme::cli
