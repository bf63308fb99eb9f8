// Answers for browsers and other programs: runs and curves as JSON, the newest numbers for Prometheus, and
// the page as it is sent.
#pragma once

#include <string>
#include <string_view>

#include "trireme/dashboard/runs.h"
#include "trireme/http/request.h"

namespace trireme::dashboard {

using http::Request;

// {"version", "count", "keys": settings in which runs differ, "runs": [{"run", "name", "state", …, "config":
// the settings in which runs differ}]}; with ?since=VERSION, of those that have changed since.
std::string runs_answer(const Runs& runs, const Request& request);
// {"run": what run.json says, "plan", "config", "defaults", "facts": what plan_facts.json says, "events",
// "samples", "checkpoints", "names": of its numbers, "rank_logs": how many}
std::string run_answer(Runs& runs, const Request& request);

// Curves, on one grid.
// ?runs=0,4&names=loss&x=step&from=&to=&columns=1000&means=1: x is step, samples, seconds (of the run) or
// time (since 1970); from and to are, left out, those of the runs.
//
//   {"from", "to": of all that these runs have, "width": of a cell, "first": cell, "cells", "slots",
//    "series": [{"run", "name", "values": so many slots for each cell, null where there is nothing,
//    "means"}]}
//
// Slot s of cell k stands at (k + s / slots) width.
std::string series_answer(Runs& runs, const Request& request);

// ?run=0&from=&to=&columns=400: of each rank, for each cell, the mean seconds of a step, those of it in
// communication, those that it waited for others (rank_waits.h), and the bytes it sent; and in what share of
// the steps it came last.
//
//   {"width", "first", "cells", "ranks": [{"rank", "seconds": […], "comm_seconds": […], "waiting": […],
//    "bytes_sent": […], "last"}]}
std::string ranks_answer(Runs& runs, const Request& request);

// ?run=0: read_timelines() of a run.
std::string timeline_answer(const Runs& runs, const Request& request);

// The newest numbers of all runs, as Prometheus reads them.
std::string prometheus_answer(const Runs& runs);

// The frame of the page, with a table of the runs for browsers without JavaScript.
std::string summary_page(const Runs& runs, std::string_view frame);
std::string escaped(std::string_view text);  // for HTML

}  // namespace trireme::dashboard
