// Memory for transports that have nothing better than the heap.
#pragma once

#include <memory>

#include "trireme/comm/transport/transport.h"

namespace trireme::comm {

std::unique_ptr<Memory> heap_memory(size_t bytes);

}  // namespace trireme::comm
