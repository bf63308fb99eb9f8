// What a rank has of a state, and where that lies in the whole.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/mesh/layout.h"

namespace trireme {

struct StatePart {
  Shape whole;
  std::vector<Pieces> pieces;     // per dim; see mesh/layout.h
  std::vector<std::string> axes;  // of the mesh, that split it: ranks along them have the whole together
  std::vector<std::string>
      sums;  // axes along which each rank has one addend of it; the same along all others
  std::vector<int> stages;  // of a pipeline, that have it; empty: all ranks have it
};
using StateParts = std::map<std::string, StatePart, std::less<>>;

// Of a state that lies so at rest.
StatePart state_part(const Shape& whole, const Layout& rest, const Mesh& mesh, int rank);

// Calls body(first element in the whole, first element in the part, elements) for each run of elements that
// are neighbours in both.
template <typename Body>
void for_each_run(const StatePart& part, const Body& body) {
  int64_t local = 0;
  const int rank = part.whole.rank();
  const auto visit = [&](const auto& self, int dim, int64_t offset) -> void {
    if (dim == rank) {  // a scalar
      body(offset, local, int64_t{1});
      return;
    }
    const int64_t stride = part.whole.elements(dim + 1, rank);
    for (const Part& piece : part.pieces[dim]) {
      if (dim == rank - 1) {
        body(offset + piece.begin, local, piece.size);
        local += piece.size;
        continue;
      }
      for (int64_t i = piece.begin; i < piece.end(); ++i) self(self, dim + 1, offset + i * stride);
    }
  };
  visit(visit, 0, 0);
}

}  // namespace trireme
