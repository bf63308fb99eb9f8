// See staged_communicator.h.
#include "trireme/runtime/staged_communicator.h"

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"

namespace trireme {

// The smallest that is large enough.
StagedCommunicator::Stage StagedCommunicator::take(size_t bytes) {
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->bytes >= bytes && (best == free_.end() || it->bytes < best->bytes)) best = it;
  }
  if (best == free_.end()) return {inner_.allocate(bytes), bytes};
  Stage found = std::move(*best);
  free_.erase(best);
  return found;
}

StagedCommunicator::Stage StagedCommunicator::taken_with(const std::byte* data, size_t bytes) {
  Stage stage = take(bytes);
  stream_.download(stage.memory.get(), data, bytes);
  return stage;
}

void StagedCommunicator::start(const Collective& call) {
  Stage stage = taken_with(call.data, call.bytes());
  Collective staged = call;
  staged.data = stage.memory.get();
  inner_.start(staged);
  under_way_.push_back({call.data, call.data, call.bytes(), std::move(stage)});
}

void StagedCommunicator::start_send(int peer, const std::byte* data, int64_t bytes, int tag) {
  Stage stage = taken_with(data, static_cast<size_t>(bytes));
  inner_.start_send(peer, stage.memory.get(), bytes, tag);
  under_way_.push_back({data, nullptr, 0, std::move(stage)});
}

void StagedCommunicator::start_receive(int peer, std::byte* data, int64_t bytes, int tag) {
  Stage stage = take(static_cast<size_t>(bytes));
  inner_.start_receive(peer, stage.memory.get(), bytes, tag);
  under_way_.push_back({data, data, static_cast<size_t>(bytes), std::move(stage)});
}

std::vector<StagedCommunicator::Started>::iterator StagedCommunicator::first_on(const std::byte* data) {
  const auto found = std::ranges::find(under_way_, data, &Started::data);
  TRIREME_CHECK(found != under_way_.end());
  return found;
}

void StagedCommunicator::end(std::vector<Started>::iterator one) {
  // When this returns the host's memory may be used again, even if the device has not got it yet.
  if (one->back) stream_.upload(one->back, one->stage.memory.get(), one->bytes);
  free_.push_back(std::move(one->stage));
  under_way_.erase(one);  // keeps the order
}

void StagedCommunicator::wait(const std::byte* data) {
  const auto found = first_on(data);
  try {
    inner_.wait(found->stage.memory.get());
  } catch (...) {
    under_way_.erase(found);  // others may go on from the same memory
    throw;
  }
  end(found);
}

Communicator::Arrived StagedCommunicator::wait_any(std::span<const std::byte* const> data, Silence too_long) {
  std::vector<const std::byte*> staged;
  for (const std::byte* one : data) staged.push_back(first_on(one)->stage.memory.get());
  const Arrived arrived = inner_.wait_any(staged, too_long);
  const auto found = first_on(data[arrived.number]);
  arrived.lost.empty() ? end(found) : void(under_way_.erase(found));
  return arrived;
}

bool StagedCommunicator::try_wait(const std::byte* data) {
  const auto found = first_on(data);
  if (!inner_.try_wait(found->stage.memory.get())) return false;
  end(found);
  return true;
}

void StagedCommunicator::all_to_all(const AllToAll& call) {
  Stage sent = taken_with(call.from, call.given_bytes()), received = take(call.gotten_bytes());
  AllToAll staged = call;
  staged.from = sent.memory.get();
  staged.to = received.memory.get();
  inner_.all_to_all(staged);
  stream_.upload(call.to, received.memory.get(), call.gotten_bytes());
  free_.push_back(std::move(sent));
  free_.push_back(std::move(received));
}

}  // namespace trireme
