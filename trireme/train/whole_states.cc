// Puts parts of states together and takes them apart.
#include "trireme/train/whole_states.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kModelRoles[] = {"parameter", "buffer"}, kOptimizerRoles[] = {"optimizer"};

bool has_role(const StateSlot& slot, std::span<const std::string_view> roles) {
  return std::ranges::find(roles, slot.attrs.text("role", "")) != roles.end();
}

bool is_part(const StateSlot& slot) {
  return !slot.part.axes.empty();
}

std::byte* bytes_of(const TensorView& view) {
  return static_cast<std::byte*>(view.data);
}

}  // namespace

std::vector<NamedTensor> WholeStates::gather(std::span<const std::string_view> roles,
                                             std::list<std::vector<std::byte>>& memory) {
  std::vector<NamedTensor> result;
  for (const StateSlot& slot : trainer_.program().states) {
    if (!has_role(slot, roles)) continue;
    const TensorView local = trainer_.executor().state(slot.name);
    if (!is_part(slot)) {
      result.push_back({slot.name, local});
      continue;
    }
    TRIREME_CHECK(local.dtype == DType::f32);
    const TensorType whole{local.dtype, slot.part.whole};
    std::vector<std::byte>& bytes = memory.emplace_back(whole.bytes());
    const size_t width = size_of(local.dtype);
    for_each_run(slot.part, [&](int64_t to, int64_t from, int64_t count) {
      std::memcpy(bytes.data() + to * width, bytes_of(local) + from * width, count * width);
    });
    // Every element has one owner and is zero bits elsewhere; added as integers, so that −0 stays −0.
    for (const std::string& axis : slot.part.axes) {
      ranks_.communicator->all_reduce(axis, bytes.data(), whole.shape.elements(), DType::i32,
                                      Communicator::Reduction::kSum);
    }
    result.push_back({slot.name, TensorView{bytes.data(), local.dtype, slot.part.whole}});
  }
  return result;
}

WholeStates::Tensors WholeStates::gather() {
  Tensors tensors;
  tensors.model = gather(kModelRoles, tensors.memory);
  tensors.optimizer = gather(kOptimizerRoles, tensors.memory);
  return tensors;
}

void WholeStates::load(const SafetensorsFile& file, std::span<const std::string_view> roles) {
  std::vector<NamedTensor> tensors;
  std::list<std::vector<std::byte>> memory;
  std::vector<std::pair<const StateSlot*, std::vector<std::byte>*>> parts;
  for (const StateSlot& slot : trainer_.program().states) {
    if (!has_role(slot, roles)) continue;
    TensorView view = trainer_.executor().state(slot.name);
    if (is_part(slot)) {
      std::vector<std::byte>& bytes = memory.emplace_back(TensorType{view.dtype, slot.part.whole}.bytes());
      parts.emplace_back(&slot, &bytes);
      view = {bytes.data(), view.dtype, slot.part.whole};
    }
    tensors.push_back({slot.name, view});
  }
  file.read_all(tensors);
  for (const auto& [slot, bytes] : parts) {
    const TensorView local = trainer_.executor().state(slot->name);
    const size_t width = size_of(local.dtype);
    for_each_run(slot->part, [&, whole = bytes](int64_t from, int64_t to, int64_t count) {
      std::memcpy(bytes_of(local) + to * width, whole->data() + from * width, count * width);
    });
  }
}

void WholeStates::load(const SafetensorsFile& model, const SafetensorsFile& optimizer) {
  load(model, kModelRoles);
  load(optimizer, kOptimizerRoles);
}

}  // namespace trireme
