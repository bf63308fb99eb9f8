// How ranks exchange what lies in the memory of their devices.
#pragma once

#include <cstdint>

namespace trireme::comm {

enum class DeviceLinks : uint8_t {
  through_host,  // it is copied to the host, goes by the transport, and is copied back
  nccl,          // from GPU to GPU by NCCL; the transport carries what ranks agree on in the host's memory
};

}  // namespace trireme::comm
