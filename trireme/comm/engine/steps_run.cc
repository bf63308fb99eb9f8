// Runs the moves of a recipe on any transport, in segments. Every lane (one peer, one direction) is a window
// of a few segments under way. A send goes out when what it carries is ready. A receive is posted as soon as
// it is its turn in the lane: into its place if that is free, otherwise beside it, to be combined when the
// place is (two ranks that exchange the same chunk would wait for each other for ever). Segments of one move
// are done in order, so what is done of a move is a prefix, and one number says how much.
#include <algorithm>
#include <array>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/comm/engine/operation.h"
#include "trireme/comm/engine/recipe_book.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm {
namespace {

constexpr uint32_t kWindow = 4;  // segments under way in one lane

struct Slot {
  Request request;
  uint32_t move = 0;
  size_t begin = 0;  // of the move's space
  size_t end = 0;
  std::byte* beside = nullptr;  // where it is received, if not in its place
  bool finished = true;
};

struct LaneRun {
  std::array<Slot, kWindow> slots;
  size_t beside_begin = 0;  // memory for kWindow segments that do not find their place free
  size_t beside_bytes = 0;  // of each
  uint32_t posted = 0;
  uint32_t retired = 0;
  uint32_t next_move = 0;  // in Lane::moves
  size_t next_byte = 0;    // of that move's place
};

class StepsRun final : public Operation {
 public:
  StepsRun(Engine& of, RecipePage& on, Transport& transport)
      : Operation(of, on, on.recipe),
        transport_(transport),
        lanes_(recipe.lanes.size()),
        done_until_(recipe.moves.size()) {
    size_t bytes = recipe.scratch_bytes;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      if (!recipe.lanes[i].stages) continue;
      lanes_[i].beside_begin = bytes;
      lanes_[i].beside_bytes = longest_message(recipe.lanes[i]);
      bytes += kWindow * lanes_[i].beside_bytes;
    }
    if (bytes > 0) memory_ = heap_memory(bytes);
  }

  void start(std::byte* data, std::byte* output) override;
  bool progress() override;

 private:
  // Padded to a cache line.
  size_t longest_message(const Lane& lane) const {
    size_t most = 0;
    for (const uint32_t move : lane.moves) {
      most = std::max(most, recipe.moves[move].place.end - recipe.moves[move].place.begin);
    }
    return (std::min(most, recipe.segment_bytes) + 63) / 64 * 64;
  }

  std::byte* at(Space space, size_t offset) { return bases_[static_cast<int>(space)] + offset; }
  bool ready(const Move& move, size_t begin, size_t end) const;
  bool retire(LaneRun& run);
  bool post(const Lane& lane, LaneRun& run);
  bool run_locals();
  void finish_segment(uint32_t move, size_t end);
  void combine(const Move& move, size_t begin, const std::byte* from, size_t bytes);

  Transport& transport_;
  std::unique_ptr<Memory> memory_;
  std::array<std::byte*, 3> bases_{};
  std::vector<LaneRun> lanes_;
  std::vector<size_t> done_until_;  // of each move: the end, in its space, of what is done
  size_t moves_left_ = 0;
};

void StepsRun::start(std::byte* data, std::byte* output) {
  bases_ = {data, output, memory_ != nullptr ? memory_->bytes().data() : nullptr};
  moves_left_ = recipe.moves.size();
  for (size_t i = 0; i < recipe.moves.size(); ++i) done_until_[i] = recipe.moves[i].place.begin;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    LaneRun& run = lanes_[i];
    run.posted = run.retired = run.next_move = 0;
    run.next_byte = recipe.moves[recipe.lanes[i].moves[0]].place.begin;
  }
  complete_ = moves_left_ == 0;
  if (!complete_) progress();
}

// Whether all earlier moves are done with these bytes.
bool StepsRun::ready(const Move& move, size_t begin, size_t end) const {
  for (uint32_t i = move.first_before; i < move.end_before; ++i) {
    const uint32_t earlier = recipe.before[i];
    const Move& other = recipe.moves[earlier];
    // A local move touches two places, which have the same size; being done with all of it is simplest.
    const bool same = other.kind != Step::Kind::local && move.kind != Step::Kind::local;
    const size_t until = same ? std::min(end, other.place.end) : other.place.end;
    if (same && (end <= other.place.begin || begin >= other.place.end)) continue;
    if (done_until_[earlier] < until) return false;
  }
  return true;
}

void StepsRun::finish_segment(uint32_t move, size_t end) {
  done_until_[move] = end;
  if (end == recipe.moves[move].place.end) --moves_left_;
}

void StepsRun::combine(const Move& move, size_t begin, const std::byte* from, size_t bytes) {
  if (move.empty) return;
  if (move.action == Action::add) {
    recipe.combine(at(move.place.space, begin), from, bytes);
  } else {
    std::memcpy(at(move.place.space, begin), from, bytes);
  }
}

bool StepsRun::retire(LaneRun& run) {
  bool moved = false;
  for (uint32_t i = run.retired; i != run.posted; ++i) {
    Slot& slot = run.slots[i % kWindow];
    if (slot.finished || !slot.request.done || done_until_[slot.move] != slot.begin) continue;
    if (slot.beside != nullptr) {
      const Move& move = recipe.moves[slot.move];
      if (!ready(move, slot.begin, slot.end)) continue;
      combine(move, slot.begin, slot.beside, slot.end - slot.begin);
    }
    finish_segment(slot.move, slot.end);
    slot.finished = true;
    moved = true;
  }
  while (run.retired != run.posted && run.slots[run.retired % kWindow].finished) ++run.retired;
  return moved;
}

bool StepsRun::post(const Lane& lane, LaneRun& run) {
  bool moved = false;
  while (run.next_move < lane.moves.size() && run.posted - run.retired < kWindow) {
    const uint32_t index = lane.moves[run.next_move];
    const Move& move = recipe.moves[index];
    const size_t begin = run.next_byte;
    const size_t end = std::min(begin + recipe.segment_bytes, move.place.end);
    const size_t bytes = move.empty ? 0 : end - begin;
    const bool free = ready(move, begin, end);
    if (!free && (lane.kind == Step::Kind::send || move.in_turn)) break;

    Slot& slot = run.slots[run.posted % kWindow];
    slot.move = index;
    slot.begin = begin;
    slot.end = end;
    slot.finished = false;
    slot.beside = nullptr;
    std::byte* const place = at(move.place.space, begin);
    if (lane.kind == Step::Kind::send) {
      transport_.send(lane.peer, label, {place, bytes}, slot.request);
    } else if (free) {
      const bool add = move.action == Action::add && !move.empty;
      transport_.receive(lane.peer, label, {place, bytes}, add ? recipe.combine : nullptr, slot.request);
    } else {
      slot.beside = memory_->bytes().data() + run.beside_begin + run.posted % kWindow * run.beside_bytes;
      transport_.receive(lane.peer, label, {slot.beside, bytes}, nullptr, slot.request);
    }
    ++run.posted;
    moved = true;
    run.next_byte = end;
    if (end == move.place.end && ++run.next_move < lane.moves.size()) {
      run.next_byte = recipe.moves[lane.moves[run.next_move]].place.begin;
    }
  }
  return moved;
}

bool StepsRun::run_locals() {
  bool moved = false;
  for (const uint32_t index : recipe.locals) {
    const Move& move = recipe.moves[index];
    if (done_until_[index] == move.place.end || !ready(move, move.place.begin, move.place.end)) continue;
    combine(move, move.place.begin, at(move.from.space, move.from.begin), move.place.end - move.place.begin);
    finish_segment(index, move.place.end);
    moved = true;
  }
  return moved;
}

bool StepsRun::progress() {
  bool any = false;
  for (bool moved = true; moved && moves_left_ > 0; any |= moved) {
    moved = false;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      LaneRun& run = lanes_[i];
      if (run.retired != run.posted) moved |= retire(run);
      if (run.next_move < recipe.lanes[i].moves.size()) moved |= post(recipe.lanes[i], run);
    }
    if (!recipe.locals.empty()) moved |= run_locals();
  }
  if (moves_left_ > 0 || complete_) return any;
  const Place& averaged = recipe.averaged;
  if (averaged.end > averaged.begin) {
    scale(at(averaged.space, averaged.begin), recipe.call.dtype, averaged.end - averaged.begin, recipe.ranks);
  }
  complete_ = true;
  return true;
}

}  // namespace

std::unique_ptr<Operation> make_steps_run(Engine& engine, RecipePage& page, Transport& transport) {
  return std::make_unique<StepsRun>(engine, page, transport);
}

}  // namespace trireme::comm
