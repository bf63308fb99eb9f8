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
      sums;                 // axes along which each rank has one addend of it; the same along all others
  std::vector<int> stages;  // of a pipeline, that have it; empty: all ranks have it
};
using StateParts = std::map<std::string, StatePart, std::less<>>;

// Of a state that lies so at rest.
StatePart state_part(const Shape& whole, const Layout& rest, const Mesh& mesh, int rank);

// Calls body(first element in the whole, first element in the part, elements) for each run of elements that
// are neighbours in both. The last dims that a rank has whole make one run with what is before them.
template <typename Body>
void for_each_run(const StatePart& part, const Body& body) {
  int64_t local = 0;
  int split = part.whole.rank();  // dims before those
  while (split > 0 && part.pieces[split - 1] == Pieces{{0, part.whole[split - 1]}}) --split;
  const int64_t block = part.whole.elements(split, part.whole.rank());
  const auto run = [&](int64_t offset, int64_t elements) {
    body(offset, local, elements);
    local += elements;
  };
  const auto visit = [&](const auto& self, int dim, int64_t offset) -> void {
    const int64_t stride = part.whole.elements(dim + 1, part.whole.rank());
    for (const Part& piece : part.pieces[dim]) {
      if (dim == split - 1) {
        run(offset + piece.begin * block, piece.size * block);
        continue;
      }
      for (int64_t i = piece.begin; i < piece.end(); ++i) self(self, dim + 1, offset + i * stride);
    }
  };
  if (split == 0)
    run(0, block);
  else
    visit(visit, 0, 0);
}

}  // namespace trireme
