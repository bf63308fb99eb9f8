// Copies of parts of tensors in memory of their own, for a checkpoint that is written while the originals
// change.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "trireme/checkpoint/tensor_part.h"

namespace trireme {

class PartsCopy {
 public:
  // Copies the parts, in the place of those before. `copies`: how many processes of this host do so at the
  // same time. Returns false, and copies nothing, where that could take more than half of the memory that is
  // available: Linux ends a process that uses too much, instead of refusing. The memory is kept for the next
  // copy.
  bool take(std::span<const PartView> model, std::span<const PartView> optimizer, int copies);

  std::span<const PartView> model() const { return model_; }
  std::span<const PartView> optimizer() const { return optimizer_; }

 private:
  std::vector<PartView> model_, optimizer_;
  std::unique_ptr<std::byte[]> memory_;
  size_t bytes_ = 0;
};

// The size of the parts' tensors.
size_t bytes_of(std::span<const PartView> parts);

}  // namespace trireme
