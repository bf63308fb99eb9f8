// See gradient_check.h. Who is at fault: what a rank gives follows from what it got before. So where two runs
// part, it is the doing of the rank that gave something else though all that it had got was the same.
#include "trireme/train/gradient_check.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/text.h"
#include "trireme/runtime/agree.h"
#include "trireme/train/state_reach.h"

namespace trireme {
namespace {

// States are read in pieces of so many bytes, wherever they lie.
constexpr size_t kPieceBytes = size_t{1} << 20;
// Squares of gradients are compared with the largest of so many steps, of which there must be some. One that
// is suspicious without a reason costs a step's time, and changes nothing.
constexpr size_t kUsual = 20, kFewest = 3;
constexpr double kSuspicious = 4;

// A rank's word in who_differs(): 0 where nothing differs.
int64_t word_of(const HashedTraffic& first) {
  return 1 + static_cast<int64_t>(first.way) + 2 * static_cast<int64_t>(first.of) + first.bytes * 16;
}
struct Differs {
  HashedTraffic::Way way;
  std::string what;  // "an all_reduce of 2.3 MiB"
};
Differs read_word(int64_t word) {
  const int64_t kind = word % 16 - 1;
  return {static_cast<HashedTraffic::Way>(kind % 2),
          fmt::format("{} of {}", name(static_cast<HashedTraffic::Of>(kind / 2)),
                      format_bytes(static_cast<size_t>(word / 16)))};
}

}  // namespace

GradientCheck::GradientCheck(int64_t every, Executor& executor, HashedCommunicator* traffic)
    : every_(every), executor_(executor), traffic_(traffic), piece_(kPieceBytes) {
  for (const State& state : program().states) {
    if (state.role == Role::kGradient || state.role == Role::kPending) gradients_.push_back(&state);
    if (is_lasting(state.role)) lasting_.push_back(&state);
  }
  for (const Segment& segment : program().segments) {
    if (segment.kind != SegmentKind::kForwardBackward) continue;
    for (const Update& update : segment.graph.updates) {
      const State* state = program().find_state(segment.graph.values[update.state].name);
      if (state && is_lasting(state->role))
        throw_error(
            "train.recheck_every makes the gradients of a step twice, and to make them changes {} under this "
            "plan; leave it 0",
            state->name);
    }
  }
}

uint64_t GradientCheck::hash_of_state(const State& state, double* squares) {
  uint64_t hash = 0;
  const bool adds = squares && state.role == Role::kGradient;
  for (size_t offset = 0; offset < state.type.bytes(); offset += kPieceBytes) {
    const size_t bytes = std::min(kPieceBytes, state.type.bytes() - offset);
    executor_.read_state(state.name, offset, piece_.data(), bytes);
    hash = hash_of(piece_.data(), bytes, hash);
    if (!adds || state.type.dtype != DType::f32) continue;
    const auto* values = reinterpret_cast<const float*>(piece_.data());
    for (size_t i = 0; i < bytes / sizeof(float); ++i)
      *squares += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  if (adds && state.type.dtype != DType::f32) {
    for (const float value : read_numbers(executor_, state))
      *squares += static_cast<double>(value) * static_cast<double>(value);
  }
  return hash;
}

std::vector<uint64_t> GradientCheck::hashes_of(const std::vector<const State*>& states) {
  std::vector<uint64_t> hashes;
  for (const State* state : states) hashes.push_back(hash_of_state(*state));
  return hashes;
}

GradientCheck::Made GradientCheck::made_by(const std::function<void()>& make) {
  Made made;
  if (traffic_) traffic_->note_in(&made.traffic);
  try {
    make();
  } catch (const BadNumbers& bad) {  // of a rank alone: several look at the loss in the update
    made.bad = bad;
  }
  if (traffic_) traffic_->note_in(nullptr);
  for (const State* state : gradients_) {
    const uint64_t hash = hash_of_state(*state, &made.squares);
    made.traffic.push_back({HashedTraffic::Of::kOwnState, HashedTraffic::Way::kGiven,
                            static_cast<int64_t>(state->type.bytes()), hash});
  }
  return made;
}

bool GradientCheck::any(bool own) const {
  return agreed(traffic_, program().mesh, int32_t{own}, Communicator::Reduction::kMax) != 0;
}

bool GradientCheck::is_suspicious(const Made& made) const {
  if (made.bad || !std::isfinite(made.squares)) return true;
  return usual_.size() >= kFewest && made.squares > kSuspicious * std::ranges::max(usual_);
}

void GradientCheck::believe(const Made& made) {
  if (made.bad) throw *made.bad;
  if (!std::isfinite(made.squares)) return;
  usual_.push_back(made.squares);
  if (usual_.size() > kUsual) usual_.pop_front();
}

std::string GradientCheck::make(int64_t step, const std::function<void()>& make) {
  const bool due = (step + 1) % every_ == 0;
  std::vector<uint64_t> before;
  if (due) before = hashes_of(lasting_);
  const Made first = made_by(make);
  if (!due && !any(is_suspicious(first))) {
    believe(first);
    return "";
  }
  const Made second = made_by(make);
  if (due) require_unchanged(step, before);
  if (!any(first.traffic != second.traffic)) {
    believe(second);
    return "";
  }
  const Made third = made_by(make);
  if (due) require_unchanged(step, before);
  const bool is_first = any(first.traffic != third.traffic), is_second = any(second.traffic != third.traffic);
  if (is_first && is_second)
    throw_error(
        "the gradients of step {} were made three times, and no two are alike: {}. The memory or the processor "
        "of that rank does not work, or a kernel gives other bits each time. Nothing of this step is in the "
        "weights, and what was saved before is not touched; continue without that machine",
        step + 1, who_differs(second, third));
  believe(third);
  return fmt::format(
      "the gradients of step {} were made again and differed: {}. They were made a third time, and those that "
      "are alike are used. A bit has flipped; if it happens again, test that machine's memory",
      step + 1, who_differs(is_first ? first : second, third));
}

std::vector<int64_t> GradientCheck::of_all_ranks(int64_t own) const {
  std::vector<int64_t> words(static_cast<size_t>(std::max(1, program().mesh.ranks())), 0);
  words[static_cast<size_t>(program().rank)] = own;
  // A rank's word is 0 on all others, so adding up along one axis after the other spreads it.
  agree(traffic_, program().mesh, std::span(words), Communicator::Reduction::kSum);
  return words;
}

// "rank 2 in what it gave to an all_reduce of 2.3 MiB".
std::string GradientCheck::who_differs(const Made& one, const Made& other) const {
  const auto [own, others] = std::ranges::mismatch(one.traffic, other.traffic);
  int64_t word = 0;
  if (own != one.traffic.end())
    word = word_of(*own);
  else if (others != other.traffic.end())
    word = word_of(*others);
  std::vector<std::string> at_fault, victims;
  const std::vector<int64_t> words = of_all_ranks(word);
  for (size_t rank = 0; rank < words.size(); ++rank) {
    if (words[rank] == 0) continue;
    const Differs differs = read_word(words[rank]);
    if (differs.way == HashedTraffic::Way::kGiven)
      at_fault.push_back(fmt::format("rank {} in what it gave to {}", rank, differs.what));
    else
      victims.push_back(fmt::format("rank {} got another result of {}", rank, differs.what));
  }
  if (!at_fault.empty()) return join(at_fault, ", ");
  return "all ranks gave the same, which changed on its way: " + join(victims, ", ");
}

void GradientCheck::require_unchanged(int64_t step, const std::vector<uint64_t>& before) {
  const std::vector<uint64_t> now = hashes_of(lasting_);
  const auto [own, others] = std::ranges::mismatch(before, now);
  const std::vector<int64_t> changed = of_all_ranks(own == before.end() ? 0 : own - before.begin() + 1);
  for (size_t rank = 0; rank < changed.size(); ++rank) {
    if (changed[rank] == 0) continue;
    const std::string state = static_cast<int>(rank) == program().rank
                                  ? lasting_[static_cast<size_t>(changed[rank] - 1)]->name
                                  : fmt::format("its state {}", changed[rank]);
    throw_error(
        "the memory of rank {} is at fault: {} has changed while the gradients of step {} were made, which only "
        "read it. Nothing of that step is in what was saved; continue from there, and test that machine's memory",
        rank, state, step + 1);
  }
}

}  // namespace trireme
