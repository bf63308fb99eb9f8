// A few numbers that ranks settle between steps: their sums, or the largest.
#pragma once

#include <span>
#include <string_view>

#include "trireme/kernels/communicator.h"
#include "trireme/mesh/mesh.h"

namespace trireme {

// Over the ranks along one axis, or over all ranks of a mesh, along one axis after the other. Afterwards
// `numbers` are the same on all of them. A mesh of one rank needs no communicator.
template <typename T, size_t kSize>
void agree(Communicator* communicator, std::string_view axis, std::span<T, kSize> numbers,
           Communicator::Reduction how) {
  communicator->all_reduce(axis, reinterpret_cast<std::byte*>(numbers.data()), std::ssize(numbers),
                           dtype_of<T>, how);
}
template <typename T, size_t kSize>
void agree(Communicator* communicator, const Mesh& mesh, std::span<T, kSize> numbers,
           Communicator::Reduction how) {
  for (const Axis& axis : mesh.axes()) {
    if (axis.size > 1) agree(communicator, axis.name, numbers, how);
  }
}

// The same for one number; returns what all have then. `whom`: an axis or a mesh.
template <typename Whom, typename T>
T agreed(Communicator* communicator, const Whom& whom, T number, Communicator::Reduction how) {
  agree(communicator, whom, std::span<T>(&number, 1), how);
  return number;
}

}  // namespace trireme
