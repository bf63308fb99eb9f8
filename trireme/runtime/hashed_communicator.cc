// See hashed_communicator.h.
#include "trireme/runtime/hashed_communicator.h"

#include <algorithm>

#include "trireme/base/enum_name.h"
#include "trireme/base/hash.h"

namespace trireme {
namespace {

using Of = HashedTraffic::Of;

constexpr EnumNames<6> kTrafficNames = {"an all_reduce", "a reduce_scatter", "an all_gather",
                                        "an all_to_all", "a message",        "a state of its own"};

Of traffic_of(CollectiveKind kind) {
  if (kind == CollectiveKind::kReduceScatter) return Of::kReduceScatter;
  return kind == CollectiveKind::kAllGather ? Of::kAllGather : Of::kAllReduce;
}

}  // namespace

std::string_view name(HashedTraffic::Of of) {
  return kTrafficNames.at(static_cast<size_t>(of));
}

void HashedCommunicator::note(Of of, HashedTraffic::Way way, const std::byte* data, size_t bytes) {
  if (traffic_ && bytes > 0)
    traffic_->push_back({of, way, static_cast<int64_t>(bytes), hash_of(data, bytes)});
}

void HashedCommunicator::start(const Collective& call) {
  if (traffic_) {
    const Of of = traffic_of(call.kind);
    const Place place = inner_.place(call.axis);
    const Part own = call.parts().of(place.ranks, place.rank);
    const size_t element = size_of(call.dtype);
    const std::byte* own_data = call.data + static_cast<size_t>(own.begin) * element;
    const size_t own_bytes = static_cast<size_t>(own.size) * element;
    const bool gives_own = of == Of::kAllGather, gets_own = of == Of::kReduceScatter;
    note(of, HashedTraffic::Way::kGiven, gives_own ? own_data : call.data,
         gives_own ? own_bytes : call.bytes());
    under_way_.push_back(
        {call.data, of, gets_own ? own_data : call.data, gets_own ? own_bytes : call.bytes()});
  }
  inner_.start(call);
}

void HashedCommunicator::start_send(int peer, const std::byte* data, int64_t bytes, int tag) {
  if (traffic_) {
    note(Of::kMessage, HashedTraffic::Way::kGiven, data, static_cast<size_t>(bytes));
    under_way_.push_back({data, Of::kMessage, data, 0});
  }
  inner_.start_send(peer, data, bytes, tag);
}

void HashedCommunicator::start_receive(int peer, std::byte* data, int64_t bytes, int tag) {
  if (traffic_) under_way_.push_back({data, Of::kMessage, data, static_cast<size_t>(bytes)});
  inner_.start_receive(peer, data, bytes, tag);
}

void HashedCommunicator::wait(const std::byte* data) {
  inner_.wait(data);
  const auto through = std::ranges::find(under_way_, data, &UnderWay::data);
  if (through == under_way_.end()) return;
  note(through->of, HashedTraffic::Way::kGotten, through->gotten, through->bytes);
  under_way_.erase(through);
}

void HashedCommunicator::all_to_all(const AllToAll& call) {
  note(Of::kAllToAll, HashedTraffic::Way::kGiven, call.from, call.given_bytes());
  inner_.all_to_all(call);
  note(Of::kAllToAll, HashedTraffic::Way::kGotten, call.to, call.gotten_bytes());
}

}  // namespace trireme
