// The newest numbers of all runs, as Prometheus reads them.
#pragma once

#include <string>

#include "trireme/dashboard/runs.h"

namespace trireme::dashboard {

std::string prometheus_answer(const Runs& runs);

}  // namespace trireme::dashboard
