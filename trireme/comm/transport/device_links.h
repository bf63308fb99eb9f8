// How ranks exchange what lies in the memory of their devices.
#pragma once

#include <cstdint>

namespace trireme::comm {

enum class DeviceLinks : uint8_t {
  through_host,  // it is copied to the host, goes by the transport, and is copied back
  in_memory,     // ranks are threads of one process on one device, and read each other's memory
  nccl,          // from GPU to GPU by NCCL; the transport carries what ranks agree on in the host's memory
};

}  // namespace trireme::comm
