// A simulated step to look at.
#pragma once

#include <string>

#include "trireme/mesh/mesh.h"
#include "trireme/sim/simulate.h"

namespace trireme::sim {

// Of a report with events. As a file that Perfetto opens (base/trace.h): a process for each rank.
std::string trace_of(const SimReport& report, const Mesh& mesh);

// As a picture: a bar for each rank that was simulated, its segments coloured by their phase, grey where the
// device waits, and below each bar a thin one for its communication. `title` is text without markup.
std::string draw_svg(const SimReport& report, const Mesh& mesh, const std::string& title);

}  // namespace trireme::sim
