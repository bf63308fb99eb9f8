// One word a rank and axis tells whether all is well; only when it is not, a word a rank and state finds the
// tensors.
#include "trireme/run/replica_check.h"

#include <algorithm>
#include <map>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/text.h"
#include "trireme/run/agreement.h"
#include "trireme/runtime/agree.h"

namespace trireme {
namespace {

// States are read in pieces of so many bytes, wherever they lie.
constexpr size_t kPieceBytes = size_t{1} << 20;

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

ReplicaCheck::ReplicaCheck(Trainer& trainer, const RankOptions& ranks)
    : executor_(trainer.executor()),
      ranks_(ranks),
      parts_axis_(ranks.plan.parts_axis_name()),
      words_(static_cast<size_t>(ranks.plan.mesh.ranks())) {
  for (const trireme::State& slot : trainer.program().states) {
    if (!is_lasting(slot.role)) continue;
    State state{slot.name, slot.type.bytes(), {}};
    piece_.resize(std::max(piece_.size(), std::min(state.bytes, kPieceBytes)));
    for (const Axis& axis : ranks.plan.mesh.axes()) {
      const bool some_have_it = axis.name == parts_axis_ && !slot.part.stages.empty();
      state.along.push_back(axis.size > 1 && !some_have_it && !contains(slot.part.axes, axis.name) &&
                            !contains(slot.part.sums, axis.name));
    }
    states_.push_back(std::move(state));
  }
  hashes_.resize(states_.size());
  const Mesh& mesh = ranks.plan.mesh;
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis) {
    std::vector<int>& first = first_along_.emplace_back();
    for (int rank = 0; rank < mesh.ranks(); ++rank)
      first.push_back(mesh.members(rank, static_cast<int>(axis)).front());
  }
}

uint64_t ReplicaCheck::hash(const State& state) {
  uint64_t hash = 0;
  for (size_t offset = 0; offset < state.bytes; offset += kPieceBytes) {
    const size_t bytes = std::min(kPieceBytes, state.bytes - offset);
    executor_.read_state(state.name, offset, piece_.data(), bytes);
    hash = hash_of(piece_.data(), bytes, hash);
  }
  return hash;
}

void ReplicaCheck::gather(uint64_t own) {
  std::ranges::fill(words_, 0);
  words_[static_cast<size_t>(ranks_.rank)] = static_cast<int64_t>(own);
  // A rank's word is 0 on all others, so adding up along one axis after the other spreads it.
  agree(ranks_.communicator, ranks_.plan.mesh, std::span(words_), Communicator::Reduction::kSum);
}

void ReplicaCheck::compare(int64_t step) {
  const Mesh& mesh = ranks_.plan.mesh;
  if (mesh.ranks() == 1) return;
  for (size_t i = 0; i < states_.size(); ++i) hashes_[i] = hash(states_[i]);
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis) {
    if (mesh.axes()[axis].size == 1) continue;
    uint64_t all = 0;
    for (size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].along[axis]) all = hash_of(&hashes_[i], sizeof hashes_[i], all);
    }
    gather(all);
    // Each rank with the first of its line. All see the same words, so all come to the same end.
    for (size_t rank = 0; rank < words_.size(); ++rank) {
      if (words_[rank] != words_[static_cast<size_t>(first_along_[axis][rank])]) explain(step);
    }
  }
}

int ReplicaCheck::stage_of(int rank) const {
  const int parts = ranks_.plan.parts_axis();
  return parts < 0 ? 0 : ranks_.plan.mesh.coordinate(rank, parts);
}

// "ln_f.weight (XXH64 89… on ranks 0 and 1, 5a… on rank 2)"; "" when it is the same wherever it should be.
std::string ReplicaCheck::difference(size_t number) {
  gather(number < hashes_.size() ? hashes_[number] : 0);
  if (number >= states_.size()) return "";
  const State& state = states_[number];
  // By the first of the ranks that should have the same, then by what they have.
  std::map<int, std::map<int64_t, std::vector<int>>> found;
  for (size_t rank = 0; rank < words_.size(); ++rank) {
    int first = static_cast<int>(rank);
    if (stage_of(first) != stage_of(ranks_.rank)) continue;  // whose states are others
    for (size_t axis = 0; axis < first_along_.size(); ++axis) {
      if (state.along[axis]) first = first_along_[axis][static_cast<size_t>(first)];
    }
    found[first][words_[rank]].push_back(static_cast<int>(rank));
  }
  for (const auto& [first, values] : found) {
    if (values.size() == 1) continue;
    std::vector<std::string> parts;
    for (const auto& [hash, ranks] : values)
      parts.push_back(fmt::format("{:016x} on {}", static_cast<uint64_t>(hash), ranks_text(ranks)));
    return fmt::format("{} (XXH64 {})", state.name, join(parts, ", "));
  }
  return "";
}

// Stages of a pipeline, and servers, have different numbers of states.
size_t ReplicaCheck::most_states() {
  if (parts_axis_.empty()) return states_.size();
  return static_cast<size_t>(agreed(ranks_.communicator, parts_axis_, int64_t{std::ssize(states_)},
                                    Communicator::Reduction::kMax));
}

int ReplicaCheck::first_of_stage() const {
  int first = 0;
  while (stage_of(first) != stage_of(ranks_.rank)) ++first;
  return first;
}

void ReplicaCheck::explain(int64_t step) {
  constexpr size_t kTold = 3;
  std::vector<std::string> told;
  size_t different = 0;
  const size_t most = most_states();
  for (size_t i = 0; i < most; ++i) {
    std::string text = difference(i);
    if (text.empty()) continue;
    if (++different <= kTold) told.push_back(std::move(text));
  }
  const std::string when = step == 0 ? "before the first step" : fmt::format("after step {}", step);
  // The first rank of a stage that has something to tell does.
  const auto leave_to = [&](int rank, const std::string& who) {
    throw comm::PeerError(comm::Failure::mismatch, rank,
                          fmt::format("ranks have come apart {}; {} says where", when, who));
  };
  if (told.empty()) leave_to(-1, "a rank of another stage");
  if (ranks_.plan.rank_in_stage(ranks_.rank) != 0)
    leave_to(first_of_stage(), fmt::format("rank {}", first_of_stage()));
  throw_error(
      "ranks that should have the same numbers do not, {}: {}{}. What was saved before is not touched. The "
      "memory of a rank, the data that it reads, or Trireme is at fault; `trireme verify` tries the plan",
      when, join(told, "; "),
      different > kTold ? fmt::format("; and {} more tensors", different - kTold) : "");
}

}  // namespace trireme
