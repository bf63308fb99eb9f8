// Which transport a job uses.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/comm/launch/environment.h"

namespace trireme::comm {

enum class TransportKind : uint8_t { inproc, shm, tcp, mpi };

struct TransportQuestion {
  std::string wanted;  // --transport; empty: choose
  int ranks = 1;
  int hosts = 1;
  bool under_mpi = false;   // the ranks met through MPI
  std::string launched_by;  // for messages
};

// Pure, and the same on all ranks. Throws Error for what can not be, with the reason.
TransportKind choose_transport(const TransportQuestion& question);

}  // namespace trireme::comm
