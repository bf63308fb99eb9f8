// Orders the nodes of an update by rounds of communication, so that collectives that do not need one another
// come together and can share a bucket: the norms of all parameters that LARS and LAMB scale their steps by.
//
//   %n1 = …  %s1 = all_reduce(%n1)  reads %s1  %n2 = …  %s2 = all_reduce(%n2)  reads %s2
//   ->  %n1 = …  %s1 = all_reduce(%n1)  %n2 = …  %s2 = all_reduce(%n2)  reads %s1  reads %s2
//
// A collective's round is the number of collectives on the longest way to it. Other nodes run in the first
// round that needs them. Collectives along the axis pipe keep their order, since stages have different graphs.
// No bits change; what the next round reads is in memory until then.
#pragma once

#include "trireme/ir/graph.h"

namespace trireme {

Graph in_rounds(const Graph& graph);

}  // namespace trireme
