// Notes hashes of what a rank gives to others and of what it gets from them: when it does the same twice, it
// is seen where the two part, and whether by its own doing.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trireme/runtime/wrapping_communicator.h"

namespace trireme {

// In the order in which a rank gave and got: what it gives depends on what it got before, and on nothing that
// it gets later.
struct HashedTraffic {
  enum class Of : uint8_t { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kMessage, kOwnState };
  Of of;
  enum class Way : uint8_t { kGiven, kGotten } way;
  int64_t bytes;
  uint64_t hash;
  friend bool operator==(const HashedTraffic&, const HashedTraffic&) = default;
};
std::string_view name(HashedTraffic::Of of);  // "an all_reduce"

class HashedCommunicator final : public WrappingCommunicator {
 public:
  // Over another one, which outlives it, of memory that this process can read.
  explicit HashedCommunicator(Communicator& inner) : WrappingCommunicator(inner) {}

  // From now on, behind what is there; null: no more. Nothing may be under way.
  void note_in(std::vector<HashedTraffic>* traffic) { traffic_ = traffic; }

  void start(const Collective& call) override;
  void start_send(int peer, const std::byte* data, int64_t bytes, int tag) override;
  void start_receive(int peer, std::byte* data, int64_t bytes, int tag) override;
  void wait(const std::byte* data) override;
  void all_to_all(const AllToAll& call) override;

 private:
  struct UnderWay {
    const std::byte* data;
    HashedTraffic::Of of;
    const std::byte* gotten;  // when it is through
    size_t bytes;
  };
  void note(HashedTraffic::Of of, HashedTraffic::Way way, const std::byte* data, size_t bytes);

  std::vector<HashedTraffic>* traffic_ = nullptr;
  std::vector<UnderWay> under_way_;  // in the order of their starts
};

}  // namespace trireme
