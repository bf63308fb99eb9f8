// Which processors a local rank is bound to. Ranks that are free to move end up on one core at times, and
// then all others wait for the two at every collective.
#pragma once

#include <vector>

namespace trireme::comm {

// The processors that this process may use, those of one core next to each other and cores of one package
// too, so that neighbouring ranks get neighbouring processors.
std::vector<int> usable_processors();

// What rank `rank` of `ranks` on this host gets: all, in equal parts. Empty, for not bound, where there are
// more ranks than processors or one rank alone.
std::vector<int> share_of(const std::vector<int>& processors, int ranks, int rank);

// Binds the calling process; false when the system refuses. Callable after fork().
bool bind_to(const std::vector<int>& processors);

}  // namespace trireme::comm
