// What the op `map` computes: element-wise ops done one after another for each element, with nothing in
// between written to memory. In a graph it is text, the attribute `code`:
//
//   "silu(0); mul(2, 1)"
//
// An operand is a number: the map's inputs come first, then the results of the instructions. The attribute
// `results` lists the numbers that the map gives out.
#pragma once

#include <string>
#include <vector>

#include "trireme/ir/attrs.h"

namespace trireme {

// So many operands have a place in registers beside what is computed from them.
inline constexpr int kMostMapInputs = 8, kMostMapResults = 4;

struct MapCode {
  struct Instruction {
    std::string op;
    std::vector<int> operands;
    Attrs attrs = {};  // numbers alone: affine's scale and shift
  };
  int inputs = 0;
  std::vector<Instruction> instructions;
  std::vector<int> results;

  // Throws an Error that quotes what is wrong with the text.
  static MapCode of(const Attrs& attrs, int inputs);
  Attrs attrs() const;
};

}  // namespace trireme
