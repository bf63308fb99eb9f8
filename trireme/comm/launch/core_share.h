// Which processors a local rank is bound to. Ranks that are free to move end up on one core at times, and
// then all others wait for the two at every collective.
#pragma once

#include <vector>

namespace trireme::comm {

// The processors that this process may use, those of one core next to each other and cores of one package
// too, so that neighbouring ranks get neighbouring processors.
std::vector<int> usable_processors();

// What rank `rank` of `ranks` on this host gets: all processors in equal parts, or one that it shares with
// its neighbours where each is shared by as many. Empty, for not bound, where that does not come out even or
// one rank is alone.
std::vector<int> share_of(const std::vector<int>& processors, int ranks, int rank);

// Binds the calling process; false when the system refuses. Callable after fork().
bool bind_to(const std::vector<int>& processors);

}  // namespace trireme::comm
