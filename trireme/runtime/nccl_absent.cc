// Takes the place of nccl_communicator.cc where no nccl.h was found when the build was configured.
#include "trireme/base/error.h"
#include "trireme/runtime/nccl.h"

namespace trireme {

void require_nccl() {
  throw_error(
      "this build has no NCCL: no nccl.h, or no CUDA toolkit, was found when it was configured. Install NCCL "
      "and configure again with -DTRIREME_NCCL_INCLUDE=FOLDER, or leave --transport nccl out: ranks then "
      "exchange through the host");
}

std::unique_ptr<Communicator> make_nccl_communicator(const NcclSetup&) {
  require_nccl();
  return nullptr;
}

}  // namespace trireme
