// Curves as JSON, on one grid.
#pragma once

#include <string>

#include "trireme/dashboard/request.h"
#include "trireme/dashboard/runs.h"

namespace trireme::dashboard {

// ?runs=0,4&names=loss&x=step&from=&to=&columns=1000&means=1: x is step, samples, seconds (of the run) or
// time (since 1970); from and to are, left out, those of the runs.
//
//   {"from", "to": of all that these runs have, "width": of a cell, "first": cell, "cells", "slots",
//    "series": [{"run", "name", "values": so many slots for each cell, null where there is nothing,
//    "means"}]}
//
// Slot s of cell k stands at (k + s / slots) width.
std::string series_answer(Runs& runs, const Request& request);

// ?run=0&from=&to=&columns=400: of each rank, for each cell, the mean seconds of a step and those of it in
// communication.
//
//   {"width", "first", "cells", "ranks": [{"rank", "seconds": […], "comm_seconds": […]}]}
std::string ranks_answer(Runs& runs, const Request& request);

}  // namespace trireme::dashboard
