// What rank 0 knows becomes what all know.
#pragma once

#include <string>

#include "trireme/comm/context.h"

namespace trireme::comm {

// Collective over all ranks. The text of the others does not matter.
std::string text_of_rank_0(Context& context, std::string text);

}  // namespace trireme::comm
