// See numeric_health.h.
#include "trireme/train/numeric_health.h"

#include <cmath>
#include <limits>

#include "trireme/base/format_limits.h"
#include "trireme/checkpoint/tensor_part.h"
#include "trireme/ir/trained.h"
#include "trireme/optim/update.h"
#include "trireme/train/counted_targets.h"
#include "trireme/train/state_reach.h"

namespace trireme {
namespace {

constexpr float kNoUpdate = std::numeric_limits<float>::quiet_NaN();

NumberCounts& counts_of(StepNumbers& numbers, const State& weight) {
  const TensorKind kind = weight.part.whole.rank() >= 2 ? TensorKind::kMatrix : TensorKind::kVector;
  return numbers[static_cast<size_t>(kind)];
}

TensorPart part_in_whole(const State& state) {
  return {state.part.whole, state.part.pieces};
}

void count_gradients(std::span<const float> values, const FormatLimits& limits, NumberCounts& counts) {
  int64_t zero = 0, subnormal = 0, saturated = 0;
  for (const float value : values) {
    const float size = std::abs(value);
    zero += size == 0;
    subnormal += size > 0 && size < limits.smallest_normal;
    saturated += !(size < limits.largest);  // NaN too
  }
  counts.of[NumberCounts::kGradients] += std::ssize(values);
  counts.of[NumberCounts::kZeroGradients] += zero;
  counts.of[NumberCounts::kSubnormalGradients] += subnormal;
  counts.of[NumberCounts::kSaturatedGradients] += saturated;
}

void count_updates(std::span<const float> before, std::span<const float> after, DType format,
                   const FormatLimits& limits, NumberCounts& counts) {
  int64_t updates = 0, lost = 0, lost_in_format = 0, saturated = 0;
  for (size_t i = 0; i < after.size(); ++i) {
    saturated += !(std::abs(after[i]) < limits.largest);
    if (std::isnan(before[i])) continue;
    const float narrow = rounded_to(format, before[i]);
    ++updates;
    lost += after[i] == before[i];
    lost_in_format += rounded_to(format, narrow + (after[i] - before[i])) == narrow;
  }
  counts.of[NumberCounts::kWeights] += std::ssize(after);
  counts.of[NumberCounts::kSaturatedWeights] += saturated;
  counts.of[NumberCounts::kUpdates] += updates;
  counts.of[NumberCounts::kLostUpdates] += lost;
  counts.of[NumberCounts::kLostInFormat] += lost_in_format;
}

}  // namespace

NumericHealth::NumericHealth(Executor& executor, DType format) : executor_(executor), format_(format) {
  const Program& program = executor.program();
  for (const State& state : program.states) {
    if (state.role != Role::kParameter || is_frozen(state.role, state.attrs)) continue;
    Tensor tensor{.weight = has_master(state.role, state.type) ? program.find_state(master_name(state.name))
                                                               : &state};
    for (const State& gradient : program.states) {
      const bool is_its = gradient.role == Role::kGradient && gradient.attrs.text("of", "") == state.name;
      if (is_its && is_made_here(program, gradient)) tensor.gradients.push_back(&gradient);
    }
    TRIREME_CHECK(tensor.weight != nullptr);
    tensors_.push_back(std::move(tensor));
  }
}

void NumericHealth::see_gradients() {
  numbers_ = {};
  const FormatLimits limits = limits_of(format_);
  for (Tensor& tensor : tensors_) {
    const std::vector<float> weight = read_numbers(executor_, *tensor.weight);
    tensor.before.assign(weight.size(), kNoUpdate);
    for (const State* gradient : tensor.gradients) {
      const std::vector<float> values = read_numbers(executor_, *gradient);
      count_gradients(values, limits, counts_of(numbers_, *tensor.weight));
      // A rank may have another part of the gradient than of the weight (ZeRO).
      for_each_common_run(part_in_whole(*gradient), part_in_whole(*tensor.weight),
                          [&](int64_t from, int64_t to, int64_t count) {
                            for (int64_t i = 0; i < count; ++i) {
                              if (values[from + i] != 0) tensor.before[to + i] = weight[to + i];
                            }
                          });
    }
  }
}

StepNumbers NumericHealth::see_update() {
  const FormatLimits limits = limits_of(format_);
  for (const Tensor& tensor : tensors_)
    count_updates(tensor.before, read_numbers(executor_, *tensor.weight), format_, limits,
                  counts_of(numbers_, *tensor.weight));
  return numbers_;
}

}  // namespace trireme
