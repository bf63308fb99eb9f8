// Takes collectives apart in time: each is started as soon as what it works on is there, and waited for right
// before its result is read. Those of one kind that are ready one after another become one bucket, with one
// start.
//
//   %g1 = …  %s1 = all_reduce(%g1)  …  %g2 = …  %s2 = all_reduce(%g2)  …  reads %s1
//   ->  %g1 = …  …  %g2 = …  %p1, %p2 = all_reduce_start(%g1, %g2)  …  %s1, %s2 = all_reduce_wait(%p1, %p2)
//
// The tensors of a bucket of all_reduces are neighbours in memory. Parts of tensors can not be: kernels want
// each whole tensor in one piece, a bucket wants the parts of one rank in one. So reduce_scatters and
// all_gathers of a bucket are packed by the start (ir/packing.h) and unpacked by the wait. An all_gather as
// large as a bucket travels alone, straight into its result.
//
// What is gathered from states is there from the beginning; it is started one bucket ahead of its use and no
// earlier, so that weights that are split at rest do not all lie whole in memory. The same holds of what one
// node makes of a state for collectives alone, as a cast does: it is made when the first of them is started.
//
// What ranks pass on (a shift) is started where it stands: a ring puts it before what it is to be hidden by.
//
// A sum whose parts differ in size from rank to rank (attribute `uneven`) has no company. In what order an
// algorithm adds up an element depends on where it lies in what is sent; ranks along another axis that have
// the same element would find other bits beside neighbours of another size.
//
// Runs last before memory is planned. Ranks whose collectives meet must decide alike, and their parts may
// differ in size: so each decides by the graph of one rank, the leader, which has the same nodes.
#pragma once

#include "trireme/ir/graph.h"

namespace trireme {

struct BucketOptions {
  // A bucket is closed when it has as many. Large enough that the time for a bucket is that of its bytes,
  // small enough that the first is under way early.
  size_t bytes = size_t{4} << 20;
};

Graph bucket(const Graph& graph, const Graph& leader, const OpTable& ops, const BucketOptions& options = {});

}  // namespace trireme
