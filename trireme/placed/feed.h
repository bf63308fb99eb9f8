// Rank 0 of a placed workflow: sends the sources' messages when they are due, and counts what becomes of
// them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/placed/job.h"
#include "trireme/placed/mail.h"
#include "trireme/placed/worker.h"

namespace trireme::placed {

// The message of a request, without its number.
using SourceMessage = std::function<Bytes(int source, int64_t request)>;

struct RunReport {
  int64_t requests = 0, answered = 0;
  std::vector<double> latency;                  // of those that were answered
  double seconds = 0;                           // from the first request to the last answer
  std::vector<std::vector<double>> bytes;       // of messages, by pairs of tiers
  std::vector<WorkerCount> workers;             // by server
  std::vector<std::vector<std::string>> texts;  // of each request, by op; "" where it was answered without it
  std::string lost;                             // which worker, and why; "": none was
};

// Until all is answered, or a worker is lost. Throws Error where nothing has come for `patience` seconds.
RunReport feed(const Job& job, comm::Transport& transport, Mail& mail, const SourceMessage& message,
               double patience);

}  // namespace trireme::placed
