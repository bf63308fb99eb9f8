// Whether a batch is what a program takes: tensors of the right types, and ids of rows and classes that there
// are. Data that Trireme opens is checked as it is read; a batch may also be filled by hand.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "trireme/data/batch.h"
#include "trireme/ops/ids.h"
#include "trireme/program/program.h"

namespace trireme {

class BatchCheck {
 public:
  explicit BatchCheck(const Program& program);

  // Throws an Error where `rows`, a stretch of the batch's tensor `given`, is not what `input` of the segment
  // takes.
  void check(int segment, const Value& input, const HostTensor& given, std::span<const std::byte> rows) const;

 private:
  struct Ids {
    std::string input;
    IdRange range;
  };
  std::vector<std::vector<Ids>> ids_;  // by segment
};

}  // namespace trireme
