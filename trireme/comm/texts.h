// Texts of any length between all ranks of a group. Collective.
#pragma once

#include <string>
#include <vector>

#include "trireme/comm/group.h"

namespace trireme::comm {

// Rank 0's, on all ranks.
std::string broadcast_text(std::string text, Group& group);
// Every rank's, on all ranks.
std::vector<std::string> gather_texts(const std::string& own, Group& group);

}  // namespace trireme::comm
