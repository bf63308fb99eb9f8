// The state machine of native collectives and the two ways without staging; see native.h. Operations of a
// group run one after another: a rank posts its mail for one when it has finished the one before. So when
// all mail of an operation is there, everybody has finished reading the mail before the last, and two places
// for mail suffice.
#include "trireme/comm/transport/shm/native.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/part.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm::shm {
namespace {

// Contributions travel as mail up to the first limit wherever they lie, and up to the second where they could
// not be read in place. Every rank then reads those of all others, which for two ranks is no more than
// reading half of the inputs and half of the results.
constexpr size_t kAlwaysMail = 1024;
size_t mail_limit(int ranks) {
  return ranks == 2 ? kMailBytes : std::max<size_t>(kMailBytes / 2 / ranks, 512);
}

}  // namespace

ShmNative::ShmNative(NativeParts parts, uint32_t group, std::span<const int> members, int me,
                     std::unique_ptr<Setup> setup)
    : parts_(parts),
      group_(group),
      ranks_(static_cast<int>(members.size())),
      me_(me),
      mail_limit_(mail_limit(ranks_)),
      always_mail_(std::min(kAlwaysMail, mail_limit_)),
      setup_(std::move(setup)),
      inputs_(members.size()),
      outputs_(members.size()) {
  for (size_t m = 0; m < members.size(); ++m) {
    SharedMemory* segment = parts.segments.of_rank[members[m]].get();
    members_.push_back({members[m], segment, nullptr, nullptr});
    if (static_cast<int>(m) != me) mask_ |= bit(members[m]);
  }
  watches_.reserve(4);
  parts_.all.push_back(this);
}

ShmNative::~ShmNative() {
  std::erase(parts_.all, this);
  for (int m = 0; m < ranks_ && connect(); ++m) {
    if (m != me_) members_[m].area->released.fetch_add(1, std::memory_order_release);
  }
  parts_.retired.push_back({std::move(setup_)});
}

bool Setup::done() const {
  return std::ranges::all_of(requests, [](const Request& request) { return request.done; });
}

bool Retired::free() const {
  const Area& area = *reinterpret_cast<const Area*>(setup->area->bytes().data());
  return setup->done() && area.released.load(std::memory_order_acquire) + 1 == setup->places.size();
}

// Whether the areas of all members are known.
bool ShmNative::connect() {
  if (members_[me_].area != nullptr) return true;
  if (!setup_->done()) return false;
  for (int m = 0; m < ranks_; ++m) {
    members_[m].area = reinterpret_cast<Area*>(members_[m].segment->at(setup_->places[m]));
  }
  return true;
}

bool ShmNative::offers(const Call& call) const {
  switch (call.collective) {
    case Collective::all_reduce:
    case Collective::reduce_scatter:
    case Collective::all_gather:
    case Collective::broadcast:
    case Collective::barrier:
      return true;
    default:
      return false;
  }
}

void ShmNative::start(NativeOperation& operation) {
  parts_.peers.check();
  operation.phase = static_cast<uint32_t>(Phase::waiting);
  if (current_ != nullptr) return queue_.push_back(&operation);
  current_ = &operation;
  watches_.clear();
  if (connect()) begin(operation);
}

bool ShmNative::progress(NativeOperation&) {
  parts_.peers.check();
  if (!watches_.empty() && !ready()) return false;
  return run();
}

bool ShmNative::run() {
  bool moved = false;
  while (current_ != nullptr) {
    watches_.clear();
    moved |= step(*current_);
    if (!current_->done) break;
    current_ = nullptr;
    if (queue_.empty()) break;
    current_ = queue_.front();
    queue_.erase(queue_.begin());
  }
  return moved;
}

bool ShmNative::ready() const {
  if (current_ == nullptr) return false;
  for (const Watch& watch : watches_) {
    if (watch.word->load(std::memory_order_relaxed) >= watch.value) return true;
  }
  return false;
}

uint64_t ShmNative::waiting_on() const {
  uint64_t mask = 0;
  if (current_ != nullptr) {
    for (const Watch& watch : watches_) mask |= bit(watch.rank);
  }
  return mask;
}

bool ShmNative::step(NativeOperation& operation) {
  const auto phase = static_cast<Phase>(operation.phase);
  bool moved = false;
  switch (phase) {
    case Phase::waiting:
      if (!connect()) return false;
      begin(operation);
      moved = true;
      [[fallthrough]];
    case Phase::posted:
      if (!open_mail(operation)) return moved;
      moved = true;
      if (operation.done || operation.phase == static_cast<uint32_t>(Phase::direct)) return true;
      [[fallthrough]];
    case Phase::staged:
      moved |= run_staged(operation);
      return moved;
    case Phase::direct:
      if (!reached(&Area::finished, finished_)) return false;
      operation.done = true;
      return true;
  }
  return moved;
}

// What depends on the call alone; calls are often the same as the one before.
void ShmNative::choose(uint64_t word) {
  word_ = word;
  call_ = Call::unpack(word);
  function_ = reduces() ? many_reduce_function(call_.dtype, call_.op) : nullptr;
}

// Posts this rank's mail.
void ShmNative::begin(NativeOperation& operation) {
  if (operation.call != word_) choose(operation.call);
  data_ = operation.data;
  bytes_ = operation.bytes;
  operation.phase = static_cast<uint32_t>(Phase::posted);
  ++started_;
  Mail& own = mail(me_);
  own.call = operation.call;
  place_ = 0;
  if (bytes_ > always_mail_) {
    place_ = parts_.segments.heap->place_of(data_, bytes_);
    std::memcpy(own.bytes.data(), &place_, sizeof place_);
  }
  if (place_ == 0 && bytes_ <= mail_limit_) {
    const Range part = reduces() ? Range{0, bytes_} : slice(me_);
    if (part.size > 0) std::memcpy(payload(me_) + part.begin, data_ + part.begin, part.size);
  }
  own.stamp.store(started_, std::memory_order_release);
  parts_.peers.wake(mask_);
}

// Reads the mail of the others; false until it is there. Then the operation is done, or has a way to go on. A
// rank's own mail is not looked at: its lines are in the caches of those who read it, and would come back.
bool ShmNative::open_mail(NativeOperation& operation) {
  int placed = place_ != 0 ? 1 : 0;
  for (int m = 0; m < ranks_; ++m) {
    if (m == me_) continue;
    Member& member = members_[m];
    const Mail& theirs = mail(m);
    if (theirs.stamp.load(std::memory_order_acquire) < started_) {
      watches_.push_back({&theirs.stamp, started_, member.rank});
      return false;
    }
    if (theirs.call != operation.call) {
      parts_.peers.fail(Failure::mismatch, member.rank,
                        calls_differ(members_[me_].rank, operation.call, member.rank, theirs.call));
    }
    if (bytes_ <= always_mail_) continue;
    uint64_t place = 0;
    std::memcpy(&place, theirs.bytes.data(), sizeof place);
    member.buffer = member.segment->at(place);
    placed += place != 0 ? 1 : 0;
  }
  if (placed == 0 && bytes_ <= mail_limit_) {
    finish_by_mail(operation);
    return true;
  }
  if (placed == ranks_) {
    work_in_place();
    operation.phase = static_cast<uint32_t>(Phase::direct);
    return true;
  }
  operation.phase = static_cast<uint32_t>(Phase::staged);
  begin_staged();
  return true;
}

void ShmNative::finish_by_mail(NativeOperation& operation) {
  operation.done = true;
  if (bytes_ == 0) return;
  if (!reduces()) {
    for (int m = 0; m < ranks_; ++m) {
      const Range part = slice(m);
      if (m == me_ || part.size == 0) continue;
      std::memcpy(data_ + part.begin, payload(m) + part.begin, part.size);
      parts_.counters.bytes_read_directly += part.size;
    }
    return;
  }
  const Range part = call_.collective == Collective::all_reduce ? Range{0, bytes_} : slice(me_);
  for (int m = 0; m < ranks_; ++m) inputs_[m] = (m == me_ ? data_ : payload(m)) + part.begin;
  std::byte* const output = data_ + part.begin;
  function_(inputs_, {&output, 1}, part.size);
  parts_.counters.bytes_read_directly += (ranks_ - 1) * part.size;
}

// Where the mail of a member is. Two ranks swap their places every time: each writes where it has read last.
// A line that was read from another core's cache comes with the right to write it, so this saves one of two
// trips of each line between the cores, a third of the time.
Mail& ShmNative::mail(int member) const {
  const bool swapped = ranks_ == 2 && started_ / 2 % 2 == 1;
  return members_[swapped ? 1 - member : member].area->mail[started_ % 2];
}

std::byte* ShmNative::payload(int member) const {
  return mail(member).bytes.data() + (bytes_ <= always_mail_ ? 0 : kMailHead);
}

void ShmNative::work_in_place() {
  if (!reduces()) {
    for (int m = 0; m < ranks_; ++m) {
      const Range part = slice(m);
      if (m == me_ || part.size == 0) continue;
      std::memcpy(data_ + part.begin, members_[m].buffer + part.begin, part.size);
      parts_.counters.bytes_read_directly += part.size;
    }
  } else {
    const Range part = slice(me_);
    outputs_.resize(ranks_);
    for (int m = 0; m < ranks_; ++m) {
      outputs_[m] = (m == me_ ? data_ : members_[m].buffer) + part.begin;
      inputs_[m] = outputs_[m];
    }
    std::span<std::byte* const> outputs = outputs_;
    if (call_.collective == Collective::reduce_scatter) outputs = outputs.subspan(me_, 1);
    if (part.size > 0) function_(inputs_, outputs, part.size);
    parts_.counters.bytes_read_directly += (ranks_ - 1) * part.size;
  }
  publish(&Area::finished, ++finished_);
}

bool ShmNative::reduces() const {
  return call_.collective == Collective::all_reduce || call_.collective == Collective::reduce_scatter;
}

// Which bytes a rank answers for: those it reduces, or those it gives.
ShmNative::Range ShmNative::slice(int member) const {
  const size_t element = size_of(call_.dtype);
  switch (call_.collective) {
    case Collective::all_reduce: {  // whole lines, so that no two ranks write to one
      const size_t each = (bytes_ + ranks_ * kLine - 1) / (ranks_ * kLine) * kLine;
      const size_t begin = std::min(each * member, bytes_);
      return {begin, std::min(each, bytes_ - begin)};
    }
    case Collective::broadcast:
      return {0, member == call_.root ? bytes_ : 0};
    case Collective::barrier:
      return {0, 0};
    default: {
      const Part part = part_of(call_.count, ranks_, member);
      return {part.begin * element, part.size * element};
    }
  }
}

bool ShmNative::reached(Counter Area::*counter, uint64_t value) {
  for (int m = 0; m < ranks_; ++m) {
    const std::atomic<uint64_t>& word = (members_[m].area->*counter).value;
    if (m == me_ || word.load(std::memory_order_acquire) >= value) continue;
    watches_.push_back({&word, value, members_[m].rank});
    return false;
  }
  return true;
}

void ShmNative::publish(Counter Area::*counter, uint64_t value) {
  (members_[me_].area->*counter).value.store(value, std::memory_order_release);
  parts_.peers.wake(mask_);
}

}  // namespace trireme::comm::shm
