// Replaces the global operator new by one that counts. The forms for arrays call the ones here; the nothrow
// ones are replaced too, because a sanitizer's do not, and what they allocate would be freed by another
// allocator.
#include "tests/support/allocation_count.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> count{0};

void* counted(size_t bytes, size_t alignment) {
  count.fetch_add(1, std::memory_order_relaxed);
  const size_t rounded = (bytes + alignment) / alignment * alignment;  // never 0
  return alignment <= alignof(std::max_align_t) ? std::malloc(rounded)
                                                : std::aligned_alloc(alignment, rounded);
}
void* or_throw(void* memory) {
  if (!memory) throw std::bad_alloc();
  return memory;
}

constexpr size_t kPlain = alignof(std::max_align_t);

}  // namespace

namespace trireme {

int64_t allocation_count() {
  return count.load();
}

}  // namespace trireme

void* operator new(size_t bytes) {
  return or_throw(counted(bytes, kPlain));
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return or_throw(counted(bytes, static_cast<size_t>(alignment)));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, kPlain);
}
void* operator new[](size_t bytes) {
  return or_throw(counted(bytes, kPlain));
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, kPlain);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
