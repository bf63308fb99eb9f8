// See counted_targets.h. All ranks' counts are had by all, so that each gradient can be given its own sum.
#include "trireme/train/counted_targets.h"

#include <algorithm>
#include <string>

#include "trireme/optim/update.h"
#include "trireme/passes/second_holder.h"
#include "trireme/runtime/agree.h"
#include "trireme/train/state_reach.h"

namespace trireme {
namespace {

bool is_added_along(const State& state, const std::string& axis) {
  return std::ranges::find(state.part.sums, axis) != state.part.sums.end();
}

// The same on all ranks: those of a stage hold gradients in the same way.
bool must_ask_others(const Program& program) {
  if (const int pipe = program.mesh.find(kPipeAxis); pipe >= 0 && program.mesh.axes()[pipe].size > 1)
    return true;
  const State* count = program.find_state(kCountState);
  return count && std::ranges::any_of(count->part.sums, [&](const std::string& axis) {
           return std::ranges::any_of(program.states, [&](const State& state) {
             return state.attrs.has("of") && state.role == Role::kGradient && !is_added_along(state, axis);
           });
         });
}

}  // namespace

bool is_made_here(const Program& program, const State& gradient) {
  const std::vector<int>& stages = gradient.part.stages;
  const int pipe = program.mesh.find(kPipeAxis);
  return stages.empty() || pipe < 0 ||
         std::ranges::find(stages, program.mesh.coordinate(program.rank, pipe)) != stages.end();
}

CountedTargets::CountedTargets(Executor& executor) : program_(executor.program()) {
  const Mesh& mesh = program_.mesh;
  const size_t ranks = static_cast<size_t>(mesh.ranks()), axes = mesh.axes().size();
  // For one all_reduce: first_, second_, and per axis how many ranks have addends along it.
  std::vector<double> all(2 * ranks + axes);
  const auto add = [&](const std::string& name, size_t from) {
    const State* count = program_.find_state(name);
    if (!count || !is_made_here(program_, *count)) return;
    all[from + static_cast<size_t>(program_.rank)] = read_numbers(executor, *count)[0];
    for (size_t a = 0; a < axes; ++a) {
      if (is_added_along(*count, mesh.axes()[a].name)) all[2 * ranks + a] = 1;
    }
  };
  add(std::string(kCountState), 0);
  add(second_name(kCountState), ranks);
  if (must_ask_others(program_))
    agree(executor.communicator(), mesh, std::span(all), Communicator::Reduction::kSum);
  first_.assign(all.begin(), all.begin() + mesh.ranks());
  second_.assign(all.begin() + mesh.ranks(), all.begin() + 2 * mesh.ranks());
  for (size_t a = 0; a < axes; ++a) added_.push_back(all[2 * ranks + a] > 0);
}

double CountedTargets::of(const State& gradient) const {
  const Mesh& mesh = program_.mesh;
  const auto counts_too = [&](int rank) {
    for (int a = 0; a < std::ssize(mesh.axes()); ++a) {
      const std::string& axis = mesh.axes()[a].name;
      if (axis == kPipeAxis || (added_[a] && !is_added_along(gradient, axis))) continue;
      if (mesh.coordinate(rank, a) != mesh.coordinate(program_.rank, a)) return false;
    }
    return true;
  };
  const bool is_second = gradient.name.ends_with(second_name(""));
  double targets = 0;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    if (counts_too(rank)) targets += (is_second ? second_ : first_)[static_cast<size_t>(rank)];
  }
  return targets;
}

}  // namespace trireme
