// See tensor_access.h.
#include "trireme/train/tensor_access.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/ir/trained.h"
#include "trireme/optim/update.h"
#include "trireme/train/counted_targets.h"
#include "trireme/train/state_reach.h"

namespace trireme {
namespace {

const State& slot_of(const Trainer& trainer, std::string_view name) {
  if (const State* slot = trainer.program().find_state(name)) return *slot;
  std::vector<std::string> known;
  for (const State& slot : trainer.program().states) known.push_back(slot.name);
  const std::string guess = nearest(name, known);
  throw_error("the model has no tensor '{}'{}", name,
              guess.empty() ? "" : fmt::format("; did you mean '{}'?", guess));
}

// Where a tensor is kept to the last bit: of a 16-bit weight, the master.
const State& kept_slot_of(const Trainer& trainer, std::string_view name) {
  const State& slot = slot_of(trainer, name);
  return has_master(slot.role, slot.type) ? slot_of(trainer, master_name(name)) : slot;
}

}  // namespace

std::vector<std::string> parameter_names(const Trainer& trainer) {
  std::vector<std::string> names;
  for (const State& slot : trainer.program().states) {
    if (slot.role == Role::kParameter) names.push_back(slot.name);
  }
  return names;
}

std::vector<float> read_tensor(Trainer& trainer, std::string_view name) {
  return read_numbers(trainer.executor(), kept_slot_of(trainer, name));
}

void write_tensor(Trainer& trainer, std::string_view name, std::span<const float> values) {
  const State &weight = slot_of(trainer, name), &slot = kept_slot_of(trainer, name);
  if (std::ssize(values) != slot.type.shape.elements())
    throw_error("{} values were given for '{}', which is {} on this rank", values.size(), name,
                to_string(slot.type));
  if (weight.type.shape != slot.type.shape)
    throw_error(
        "'{}' is {} on this rank, and of its f32 master it has {}, so that one can not be made of the other; "
        "give the values as a checkpoint (train.init_from), or use a plan that does not split the "
        "optimizer's states",
        name, to_string(weight.type), to_string(slot.type));
  write_numbers(trainer.executor(), slot, values);
  if (&weight != &slot) write_numbers(trainer.executor(), weight, values);
}

std::vector<float> read_gradient(Trainer& trainer, std::string_view parameter) {
  const State& weight = slot_of(trainer, parameter);
  if (is_frozen(weight.role, weight.attrs))
    throw_error("'{}' is frozen (train.freeze), so that it has no gradient", parameter);
  const CountedTargets& targets = trainer.counted_targets();
  std::vector<float> result;
  bool found = false;
  // What chunks of this rank add up apart (a tied weight) is one gradient here.
  for (const State& state : trainer.program().states) {
    if (state.role != Role::kGradient || state.attrs.text("of", "") != weight.name) continue;
    if (!is_made_here(trainer.program(), state)) continue;
    const std::vector<float> values = read_numbers(trainer.executor(), state);
    const auto scale = static_cast<float>(1 / (std::max(1.0, targets.of(state)) * trainer.loss_scale));
    result.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) result[i] += values[i] * scale;
    found = true;
  }
  if (!found) throw_error("this rank computes no gradient of '{}'", parameter);
  return result;
}

}  // namespace trireme
