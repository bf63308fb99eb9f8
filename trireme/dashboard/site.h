// What the dashboard answers: the page, and as JSON what the page shows.
//
//   /                       the page; without JavaScript, a table of the runs
//   /page.css, /main.js, …  its files
//   /api/runs               all runs; with ?since=VERSION those that have changed
//   /api/run?run=N          all of one run but its curves
//   /api/series?…           curves of several runs on one grid (answers.h)
//   /api/ranks?run=N&…      times of each rank, on a grid
//   /api/timeline?run=N     what ranks did in one step, and what a simulation said
//   /metrics                the newest numbers of all runs, for Prometheus
//
// Runs are named by number, never by path.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "trireme/dashboard/guard.h"
#include "trireme/dashboard/runs.h"

namespace trireme::dashboard {

class Site {
 public:
  // Throws Error where a folder is not there.
  Site(RunsOptions runs, Guard guard) : runs_(std::move(runs)), guard_(std::move(guard)) {}

  // May be called by several threads. `port` is that of the server.
  Answer answer(const Request& request, int port);
  // Of those that are there, for people.
  size_t count_runs();

 private:
  Answer route(const Request& request);

  std::mutex mutex_;
  Runs runs_;
  Guard guard_;
};

}  // namespace trireme::dashboard
