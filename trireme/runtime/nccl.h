// Collectives and messages from GPU to GPU, by NVIDIA's NCCL: one rank on each GPU. NCCL is found at
// configure time (nccl.h) and loaded when it is needed; nccl_absent.cc takes its place in a build without.
#pragma once

#include <memory>

#include "trireme/kernels/communicator.h"
#include "trireme/runtime/comm_use.h"

struct CUstream_st;  // CUDA's

namespace trireme {

// Throws an Error that says what is missing when this build or this machine has no NCCL.
void require_nccl();

struct NcclSetup {
  Communicator& host;   // by which ranks tell each other how they are joined; outlives what is made
  CommUse use;          // NCCL joins these groups and ways, and no others can be used
  int device;           // this rank's GPU
  CUstream_st* stream;  // that computes: a call begins when what it was given by then is through
};
// Collective over all ranks of the mesh. Nothing of it waits for the GPU: wait() makes the stream wait.
// Throws an Error in NCCL's words, which names the ranks, when they can not be joined, when one fails, and
// when a call is not through within the timeout of the host's communicator.
std::unique_ptr<Communicator> make_nccl_communicator(const NcclSetup& setup);

}  // namespace trireme
