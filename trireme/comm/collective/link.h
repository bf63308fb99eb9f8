// What a message costs, and so what Steps cost: alpha + bytes * beta, plus gamma for every byte reduced.
#pragma once

#include <cstddef>

#include "trireme/comm/collective/steps.h"

namespace trireme::comm {

struct Link {
  double alpha_seconds = 0;           // of a message, before its first byte
  double beta_seconds_per_byte = 0;   // of its bytes
  double gamma_seconds_per_byte = 0;  // of adding one byte to another
};

}  // namespace trireme::comm
