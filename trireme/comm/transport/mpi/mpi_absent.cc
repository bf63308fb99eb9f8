// Compiled where CMake found no MPI.
#include "trireme/comm/transport/mpi/mpi.h"

namespace trireme::comm {

bool mpi_is_compiled_in() {
  return false;
}

std::unique_ptr<MpiSession> start_mpi() {
  throw_error(
      "this trireme was built without MPI, and was asked to use it (mpirun, srun or --transport mpi). "
      "Install libopenmpi-dev and openmpi-bin (or libmpich-dev and mpich), delete the build folder and build "
      "again; or let trireme start the ranks itself: -n RANKS");
}

}  // namespace trireme::comm
