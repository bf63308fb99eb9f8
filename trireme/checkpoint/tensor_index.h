// Which file has which tensor, or which part of it, as JSON beside the files:
//
//   {"metadata": {"total_size": 4096},
//    "weight_map": {"ln.weight": "model-00001-of-00002.safetensors"},
//    "parts": {"wte.weight": {"shape": [64, 8], "pieces": [
//      {"file": "model-00001-of-00002.safetensors", "dims": [[[0, 32]], [[0, 8]]]},
//      {"file": "model-00002-of-00002.safetensors", "dims": [[[32, 64]], [[0, 8]]]}]}}}
//
// Whole tensors are in `weight_map`, as other tools write and read it. Of a tensor in `parts` each file has a
// tensor of the same name with the shape of its part; `dims` has, for each dim, the pieces [begin, end) of
// it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/checkpoint/tensor_part.h"

namespace trireme {

struct TensorIndex {
  struct Piece {
    std::string file;
    TensorPart part;
  };
  std::map<std::string, std::string> files;         // of whole tensors, by name
  std::map<std::string, std::vector<Piece>> parts;  // of the others
  uint64_t total_bytes = 0;                         // of the data

  // Adds what another index has. Throws Error when both have a whole tensor of one name.
  void add(const TensorIndex& other);
};

std::string render_index(const TensorIndex& index);
// Accepts only names of files in the same folder, and parts that lie within their tensor. `where` opens every
// message. Throws Error.
TensorIndex parse_index(std::string_view json, std::string_view where);

// Throws Error unless the parts of each tensor have every element of it exactly once.
void check_complete(const TensorIndex& index, std::string_view where);

}  // namespace trireme
