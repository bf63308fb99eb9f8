// Hands out parts of a kernel's workspace. The same function lays out the parts when the workspace is
// sized (with no memory) and when the kernel runs, so the two cannot disagree.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::cpu {

class Workspace {
 public:
  explicit Workspace(std::byte* memory) : memory_(memory) {}  // null: only count bytes

  // The next `count` elements, 64-byte aligned.
  template <typename T>
  T* take(int64_t count) {
    std::byte* const part = memory_ ? memory_ + used_ : nullptr;
    used_ += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(part);
  }
  size_t bytes() const { return used_; }

 private:
  std::byte* memory_;
  size_t used_ = 0;
};

}  // namespace trireme::cpu
