// See parts_copy.h.
#include "trireme/checkpoint/parts_copy.h"

#include <cstring>
#include <new>

#include "trireme/base/machine.h"

namespace trireme {
namespace {

// Each tensor's copy begins where any format may.
size_t padded(size_t bytes) {
  return (bytes + alignof(std::max_align_t) - 1) / alignof(std::max_align_t) * alignof(std::max_align_t);
}

std::byte* copy(std::span<const PartView> parts, std::byte* to, std::vector<PartView>& copies) {
  copies.clear();
  for (const auto& [name, view, part, reach] : parts) {
    const size_t bytes = view.bytes();
    if (reach.read)
      reach.read(0, to, bytes);
    else if (bytes > 0)
      std::memcpy(to, view.data, bytes);
    copies.push_back({name, {to, view.dtype, view.shape}, part});
    to += padded(bytes);
  }
  return to;
}

}  // namespace

size_t bytes_of(std::span<const PartView> parts) {
  size_t bytes = 0;
  for (const PartView& part : parts) bytes += part.view.bytes();
  return bytes;
}

bool PartsCopy::take(std::span<const PartView> model, std::span<const PartView> optimizer, int copies) {
  size_t needed = 0;
  for (const std::span<const PartView> parts : {model, optimizer}) {
    for (const PartView& part : parts) needed += padded(part.view.bytes());
  }
  if (needed > bytes_) {
    memory_.reset();
    bytes_ = 0;
    if (needed > available_memory_bytes() / 2 / static_cast<size_t>(copies)) return false;
    memory_.reset(new (std::nothrow) std::byte[needed]);
    if (!memory_) return false;
    bytes_ = needed;
  }
  copy(optimizer, copy(model, memory_.get(), model_), optimizer_);
  return true;
}

}  // namespace trireme
