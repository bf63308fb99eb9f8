// Shares out the writing of states.
#include "trireme/train/rank_states.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/exchange/method.h"
#include "trireme/ir/trained.h"
#include "trireme/optim/update.h"
#include "trireme/runtime/agree.h"
#include "trireme/train/state_reach.h"

namespace trireme {
namespace {

// Who writes what, the same on all ranks of a stage: they have the same states. Ranks that differ only along
// axes that do not split a state have the same part of it, and the one whose files are smallest so far writes
// it. What several stages have, the first of them writes.
class Writers {
 public:
  // The mesh of one stage's ranks; the whole mesh where there is no pipeline.
  explicit Writers(const Mesh& mesh) : mesh_(mesh), bytes_(mesh.ranks(), 0) {}

  bool writes(int rank, const State& slot) {
    const std::vector<std::string>& axes = slot.part.axes;
    // Parts may be uneven, but all ranks must come to the same result, so the whole is what is counted.
    const uint64_t bytes = TensorType{slot.type.dtype, slot.part.whole}.bytes();
    std::vector<uint64_t> fullest(mesh_.ranks(), 0);
    int copies = 0, ways = 0;
    for (int r = 0; r < mesh_.ranks(); ++r) {
      const int copy = copy_number(r, axes);
      fullest[copy] = std::max(fullest[copy], bytes_[r]);
      copies = std::max(copies, copy + 1);
    }
    ways = mesh_.ranks() / copies;
    const int chosen =
        static_cast<int>(std::min_element(fullest.begin(), fullest.begin() + copies) - fullest.begin());
    for (int r = 0; r < mesh_.ranks(); ++r) {
      if (copy_number(r, axes) == chosen) bytes_[r] += bytes / static_cast<uint64_t>(ways);
    }
    return copy_number(rank, axes) == chosen;
  }

 private:
  // Counts the ranks that have the same part.
  int copy_number(int rank, const std::vector<std::string>& split) const {
    int number = 0;
    for (size_t a = 0; a < mesh_.axes().size(); ++a) {
      const Axis& axis = mesh_.axes()[a];
      if (std::ranges::find(split, axis.name) == split.end())
        number = number * axis.size + mesh_.coordinate(rank, static_cast<int>(a));
    }
    return number;
  }

  const Mesh mesh_;
  std::vector<uint64_t> bytes_;  // that each rank writes so far
};

// Whether it is part of the model; what lasts besides goes with the optimizer's states.
bool is_of_model(Role role) {
  return role == Role::kParameter || role == Role::kMaster || role == Role::kBuffer;
}

std::vector<PartView>& place_of(RankStates& states, const std::string& name, Role role, const Attrs& attrs) {
  if (attrs.has(kBase)) states.base.insert(name);
  return is_of_model(role) ? states.model : states.optimizer;
}

template <typename Wanted>
RankStates collect(Trainer& trainer, const Wanted& wanted) {
  RankStates states;
  for (const State& slot : trainer.program().states) {
    if (!is_lasting(slot.role) || !wanted(slot)) continue;
    place_of(states, slot.name, slot.role, slot.attrs)
        .push_back({saved_name(slot.name, slot.role, slot.attrs),
                    has_master(slot.role, slot.type) ? TensorView{nullptr, DType::f32, slot.type.shape}
                                                     : view_of(slot),
                    {slot.part.whole, slot.part.pieces},
                    has_master(slot.role, slot.type) ? rounding_reach(trainer.executor(), slot)
                                                     : reach_of(trainer.executor(), slot.name)});
  }
  return states;
}

void add_scale_of(const Trainer& trainer, TrainState& state) {
  state.loss_scale = trainer.loss_scale;
  state.scale_age = trainer.scale_age;
}

}  // namespace

RankStates states_of(Trainer& trainer) {
  RankStates states = collect(trainer, [](const State&) { return true; });
  for (const Value& state : trainer.program().remote_states) {
    const Shape none(std::vector<int64_t>(state.type.shape.rank(), 0));
    place_of(states, state.name, state.role, state.attrs)
        .push_back({saved_name(state.name, state.role, state.attrs),
                    {nullptr, has_master(state.role, state.type) ? DType::f32 : state.type.dtype, none},
                    {state.type.shape, std::vector<Pieces>(state.type.shape.rank())}});
  }
  return states;
}

std::vector<PartView> starting_parts(Trainer& trainer) {
  RankStates states = states_of(trainer);
  std::vector<PartView> parts = std::move(states.model);
  for (const State& slot : trainer.program().states) {
    if (!slot.attrs.has(kStartsAs)) continue;
    parts.push_back({slot.attrs.text(kStartsAs),
                     view_of(slot),
                     {slot.part.whole, slot.part.pieces},
                     reach_of(trainer.executor(), slot.name)});
  }
  return parts;
}

RankStates states_to_write(Trainer& trainer, const RankOptions& ranks) {
  const Plan& plan = ranks.plan;
  const int parts = plan.parts_axis(), stage = parts < 0 ? 0 : plan.mesh.coordinate(ranks.rank, parts);
  Writers writers(plan.of_one_stage().mesh);
  return collect(trainer, [&](const State& slot) {
    const bool of_stage = slot.part.stages.empty() || slot.part.stages.front() == stage;
    return of_stage && !slot.attrs.has(kBase) && !has_master(slot.role, slot.type) &&
           writers.writes(plan.rank_in_stage(ranks.rank), slot);
  });
}

CheckpointPeers checkpoint_peers(const RankOptions& ranks) {
  if (ranks.plan.mesh.ranks() == 1) return {};
  return {.index = ranks.rank,
          .count = ranks.plan.mesh.ranks(),
          .agree = [mesh = ranks.plan.mesh, communicator = ranks.communicator](bool yes) {
            return agreed(communicator, mesh, int32_t{!yes}, Communicator::Reduction::kMax) == 0;
          }};
}

std::string save(Checkpoints& checkpoints, TrainState state, Trainer& trainer, const RankOptions& ranks) {
  const Trainer::Meeting meeting(trainer);
  add_scale_of(trainer, state);
  const RankStates share = states_to_write(trainer, ranks);
  return checkpoints.save(state, share.model, share.optimizer);
}

void begin_save(Checkpoints& checkpoints, TrainState state, Trainer& trainer, const RankOptions& ranks) {
  const Trainer::Meeting meeting(trainer);
  add_scale_of(trainer, state);
  const RankStates share = states_to_write(trainer, ranks);
  checkpoints.begin(state, share.model, share.optimizer);
}

std::string restore(Trainer& trainer, const LoadedCheckpoint& checkpoint,
                    const std::function<void()>& read_base) {
  RankStates states = states_of(trainer);
  std::vector<PartView> kept;
  std::erase_if(states.optimizer, [&](const PartView& part) {
    if (part.name.starts_with(kKeptPrefix)) kept.push_back(part);
    return part.name.starts_with(kKeptPrefix);
  });
  const auto stored = [&](const PartView& part) {
    const TensorFiles::Tensor* found = checkpoint.optimizer.find(part.name);
    return found && found->dtype == part.view.dtype && found->shape == part.part.whole;
  };
  const bool anew = !std::ranges::all_of(kept, stored);
  if (anew) trainer.initialise(checkpoint.state.seed);
  if (!states.base.empty()) {
    if (!read_base)
      throw_error(
          "{} leaves out weights that its run started from (train.init_from), and they were not given",
          checkpoint.path);
    read_base();
    std::erase_if(states.model, [&](const PartView& part) { return states.base.contains(part.name); });
  }
  checkpoint.model.read_all(states.model);
  checkpoint.optimizer.read_all(states.optimizer, kKeptPrefix);
  if (!anew) {
    for (const PartView& part : kept) checkpoint.optimizer.read(*checkpoint.optimizer.find(part.name), part);
  }
  trainer.loss_scale = checkpoint.state.loss_scale;
  trainer.scale_age = checkpoint.state.scale_age;
  anew ? trainer.begin_from_weights() : trainer.part_from_meeting();
  trainer.begin_sums_again(checkpoint.state.step);
  if (!anew) return "";
  return "what the exchange between replicas had not sent yet is lost: it was kept by another number of "
         "ranks or by another method, and starts anew";
}

}  // namespace trireme
