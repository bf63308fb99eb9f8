// What the files of this folder share: MPI's return codes as errors.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>

#include "trireme/comm/transport/transport.h"

namespace trireme::comm {

inline std::string mpi_error_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return std::string(text, static_cast<size_t>(length));
}

// `doing` completes "MPI failed while …". With MPI_ERRORS_RETURN a broken peer may, but need not, show here.
inline void check_mpi(int code, int peer, const char* doing) {
  if (code == MPI_SUCCESS) return;
  throw PeerError(
      Failure::cut_off, peer,
      fmt::format("MPI failed while {}{}: {}. Another rank may have died; the output of the other "
                  "ranks and of mpirun or srun says more",
                  doing, peer < 0 ? "" : fmt::format(" rank {}", peer), mpi_error_text(code)));
}

}  // namespace trireme::comm
