// The traces of all ranks as one file.
#pragma once

#include <string>

#include "trireme/base/trace.h"
#include "trireme/comm/context.h"
#include "trireme/mesh/mesh.h"

namespace trireme {

// A trace whose zero is now on all ranks. Collective. Ranks on rank 0's host have its clock; on other hosts
// zero is when they leave a barrier, some tens of microseconds off.
Trace begin_trace(comm::Context& context, Trace::Begins begins = Trace::Begins::kRecording);

// Throws Error when the file can not be written: asked before hours of training, not after.
void check_trace_file(const std::string& path);
// Rank 0 writes `path`. Collective where there is a world: all ranks of the mesh.
void write_trace_file(const std::string& path, const Trace& trace, const Mesh& mesh, comm::Group* world);

}  // namespace trireme
