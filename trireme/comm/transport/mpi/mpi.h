// Ranks that mpirun or srun started, over Open MPI or MPICH. Whether MPI is compiled in is decided when CMake
// looks for it; where it is not, start_mpi() refuses and says what to install.
//
// What MPI can not tell: most MPI libraries end the whole job when a rank dies, before anyone here could name
// it; the launcher (mpirun, srun) names it instead. A rank that is stopped or stuck is found by the timeout.
#pragma once

#include <memory>
#include <string>

#include "trireme/comm/transport/transport.h"
#include "trireme/comm/wire/rendezvous.h"

namespace trireme::comm {

bool mpi_is_compiled_in();

// MPI from its start to its end: one in the life of a process, as MPI demands. What it made goes first.
class MpiSession {
 public:
  virtual ~MpiSession() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual std::string library() const = 0;  // "Open MPI v4.1.4"
  // Both are collective over all ranks.
  virtual std::unique_ptr<Rendezvous> rendezvous(double timeout_seconds) = 0;
  virtual std::unique_ptr<Transport> transport() = 0;
};

// Throws Error where MPI is not compiled in, or gives less than one thread at a time.
std::unique_ptr<MpiSession> start_mpi();

}  // namespace trireme::comm
