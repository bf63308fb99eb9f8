// The closed set of ops.
#pragma once

#include "trireme/ir/op_record.h"

namespace trireme {

// Built once, never changed.
const OpTable& ops();

}  // namespace trireme
