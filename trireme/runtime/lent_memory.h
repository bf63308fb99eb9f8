// Memory that others own and on which operations are started: finds the owner of an address, so that an
// operation can share the memory for as long as it is under way. Knowing memory does not keep it alive.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace trireme {

class LentMemory {
 public:
  void add(const std::shared_ptr<std::byte>& memory, size_t bytes) {
    std::erase_if(stretches_, [](const Stretch& stretch) { return stretch.memory.expired(); });
    if (bytes > 0) stretches_.push_back({memory.get(), bytes, memory});
  }

  // Null for an address that lies in no memory that was lent and is still there. Allocates nothing.
  std::shared_ptr<const std::byte> owner(const std::byte* address) const {
    for (const Stretch& stretch : stretches_) {
      const std::less<> before;  // a total order, also of pointers into different objects
      if (before(address, stretch.begin) || !before(address, stretch.begin + stretch.bytes)) continue;
      if (std::shared_ptr<const std::byte> owner = stretch.memory.lock()) return owner;
    }
    return nullptr;
  }

 private:
  struct Stretch {
    const std::byte* begin;
    size_t bytes;
    std::weak_ptr<const std::byte> memory;
  };
  std::vector<Stretch> stretches_;  // a handful for each executor
};

}  // namespace trireme
