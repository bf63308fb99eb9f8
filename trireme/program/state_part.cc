// See state_part.h.
#include "trireme/program/state_part.h"

namespace trireme {

StatePart state_part(const Shape& whole, const Layout& rest, const Mesh& mesh, int rank) {
  StatePart part{whole, local_pieces(whole, rest, mesh, rank), {}, {}, {}};
  for (size_t a = 0; a < rest.size(); ++a) {
    if (rest[a].kind == Placement::Kind::kSplit) part.axes.push_back(mesh.axes()[a].name);
    if (rest[a].kind == Placement::Kind::kSum) part.sums.push_back(mesh.axes()[a].name);
  }
  return part;
}

}  // namespace trireme
