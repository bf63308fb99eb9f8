// Finds values of a growing graph by their names, which stay in the graph alone: graphs have hundreds of
// thousands of values, and every pass builds a new one.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "trireme/ir/graph.h"

namespace trireme {

class NameIndex {
 public:
  // The value of this name; kNoValue when there is none. `values` are those that were added.
  ValueId find(std::string_view name, const std::vector<Value>& values) const {
    if (slots_.empty()) return kNoValue;
    return slots_[slot_of(name, hash_of(name), values)].value;
  }

  // Notes that a value, which is about to be in `values`, has this name. False when another one has.
  bool add(std::string_view name, ValueId value, const std::vector<Value>& values) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    const uint32_t hash = hash_of(name);
    Slot& slot = slots_[slot_of(name, hash, values)];
    if (slot.value != kNoValue) return false;
    slot = {hash, value};
    ++count_;
    return true;
  }

 private:
  struct Slot {
    uint32_t hash = 0;
    ValueId value = kNoValue;
  };

  static uint32_t hash_of(std::string_view name) {
    return static_cast<uint32_t>(std::hash<std::string_view>()(name));
  }
  // Where the name is, or belongs.
  size_t slot_of(std::string_view name, uint32_t hash, const std::vector<Value>& values) const {
    size_t at = hash & (slots_.size() - 1);
    while (slots_[at].value != kNoValue &&
           (slots_[at].hash != hash || values[static_cast<size_t>(slots_[at].value)].name != name))
      at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void grow() {
    std::vector<Slot> larger(slots_.empty() ? 16 : 2 * slots_.size());
    for (const Slot& slot : slots_) {
      if (slot.value == kNoValue) continue;
      size_t at = slot.hash & (larger.size() - 1);
      while (larger[at].value != kNoValue) at = (at + 1) & (larger.size() - 1);
      larger[at] = slot;
    }
    slots_ = std::move(larger);
  }

  std::vector<Slot> slots_;  // a power of 2 of them, half of them free at least
  size_t count_ = 0;
};

}  // namespace trireme
