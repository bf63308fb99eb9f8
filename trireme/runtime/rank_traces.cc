// See rank_traces.h.
#include "trireme/runtime/rank_traces.h"

#include <filesystem>
#include <fstream>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/comm/group.h"

namespace trireme {
namespace {

// "rank 3 (data 1, pipe 0)"
std::string name_of(const Mesh& mesh, int rank) {
  std::vector<std::string> place;
  for (size_t a = 0; a < mesh.axes().size(); ++a)
    place.push_back(fmt::format("{} {}", mesh.axes()[a].name, mesh.coordinate(rank, static_cast<int>(a))));
  return place.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} ({})", rank, join(place, ", "));
}

}  // namespace

Trace begin_trace(comm::Context& context, Trace::Begins begins) {
  comm::Group world = context.world();
  world.barrier().wait();
  int64_t zero = Trace::Clock::now().time_since_epoch().count(), first = zero;
  world.broadcast(&first, 1, DType::i64, /*root=*/0).wait();
  if (context.hosts()[context.rank()] == context.hosts()[0]) zero = first;
  return Trace(Trace::Clock::time_point(Trace::Clock::duration(zero)), begins);
}

void check_trace_file(const std::string& path) {
  std::error_code ignored;
  const bool was_there = std::filesystem::exists(path, ignored);
  if (!std::ofstream(path, std::ios::app))
    throw_error("--trace {}: the file can not be written; is its folder there?", path);
  if (!was_there) std::filesystem::remove(path, ignored);  // what comes of the run is not known yet
}

void write_trace_file(const std::string& path, const Trace& trace, const Mesh& mesh, comm::Group* world) {
  const int rank = world ? world->rank() : 0;
  const std::string own = trace_part(rank, name_of(mesh, rank), trace.events());
  const std::vector<std::string> parts =
      world ? comm::gather_texts(own, *world) : std::vector<std::string>{own};
  if (rank != 0) return;
  std::ofstream file(path, std::ios::binary);
  file << trace_file(parts) << std::flush;
  if (!file) throw_error("--trace {}: the file could not be written whole; is the disk full?", path);
}

}  // namespace trireme
