// See reference.h.
#include "trireme/train/parity/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/base/error.h"
#include "trireme/passes/widen.h"
#include "trireme/train/parity/row_groups.h"

namespace trireme::parity {
namespace {

// Noisy runs, and what their largest move is multiplied by. A real mistake (a part left out, counted twice,
// weighed wrongly) is off by a part of the value, 10^4 and more times the noise of f32.
constexpr int kFewSamples = 6, kManySamples = 48;
constexpr double kSafety = 8;
// In 16 bit what batch norms of two nearly equal rows do with a rounding has a long tail: twice as much as
// eight times what 48 samples show was seen, two times in 20,000 plans. Structure is judged by the widened
// program with the bound above, so that this one may be generous.
constexpr double kSafetyIn16Bits = 64;

// Of each result, at least so much is rounding: two units in the last place.
constexpr double kLeast = 0x1p-22;

int count_of(Samples samples) {
  return samples == Samples::kFew ? kFewSamples : kManySamples;
}

void add_report(States& states, const StepResult& result) {
  states["loss"] = {static_cast<float>(result.loss)};
  states["norm"] = {static_cast<float>(result.norm)};
}

}  // namespace

Program in_width(Program program, Width width, const Device& device) {
  if (width == Width::kAsItIs) return program;
  std::vector<Graph> graphs;
  for (const Segment& segment : program.segments) graphs.push_back(widen(segment.graph));
  return with_graphs(program, std::move(graphs), workspace_query(device));
}

Reference::Reference(Training training, Width width)
    : training_(std::move(training)),
      width_(width),
      device_(make_device({.kind = training_.train.device})),
      trainer_(
          in_width(step_program(training_.model, training_.train, training_.optim, training_.shape, *device_),
                   width, *device_),
          training_.train, training_.shape, *device_, {}),
      noise_(trainer_.program()),
      lasting_(states_of(trainer_.program(), StateGroup::kLasting)),
      left_(states_of(trainer_.program(), StateGroup::kLeft)) {
  if (training_.rates.size() != training_.batches.size())
    throw_error("{} batches and {} learning rates; one of each for every step expected",
                training_.batches.size(), training_.rates.size());
  trainer_.initialise(static_cast<uint64_t>(training_.train.seed));
  for (int64_t step = 0; step <= steps(); ++step) {
    Step& now = record_.emplace_back();
    now.before = read_states(trainer_, lasting_);
    now.loss_scale = trainer_.loss_scale;
    now.scale_age = trainer_.scale_age;
    now.number = step;
    if (step == steps()) break;
    now.rate = training_.rates[static_cast<size_t>(step)];
    make(step);
  }
  evaluation_ = evaluate();
}

void Reference::restore(int64_t step) {
  const Step& then = record_[step];
  write_states(trainer_, then.before);
  trainer_.loss_scale = then.loss_scale;
  trainer_.scale_age = then.scale_age;
}

void Reference::forward_backward(int64_t step) {
  trainer_.forward_backward(training_.batches[step], record_[step].number);
}

void Reference::make(int64_t step) {
  forward_backward(step);
  Step& now = record_[static_cast<size_t>(step)];
  now.left = read_states(trainer_, left_);
  now.result = trainer_.update(now.number, now.rate);
}

void Reference::replace(int64_t step, int64_t number, double rate, States before) {
  Step& now = record_[static_cast<size_t>(step)];
  now.number = number;
  now.rate = rate;
  now.before = std::move(before);
  left_bounds_.erase(step);
}

void Reference::replace(int64_t step, int64_t number, double rate, States before, Batch batch) {
  replace(step, number, rate, std::move(before));
  training_.batches[static_cast<size_t>(step)] = std::move(batch);
  restore(step);
  make(step);
}

Evaluation Reference::evaluate() {
  Evaluation evaluation;
  trainer_.evaluate(training_.batches.back(), evaluation);
  return evaluation;
}

Reference& Reference::widened() {
  if (!widened_) widened_ = std::make_unique<Reference>(training_, Width::kWidened);
  return *widened_;
}

// To what a noisy run has shown of any element of a group.
void Reference::raise(Bounds& bounds, const States& expected, const States& moved) const {
  const bool in_16_bits = width_ == Width::kAsItIs && precision_of(training_.train) != DType::f32;
  const double safety = in_16_bits ? kSafetyIn16Bits : kSafety;
  for (const auto& [name, expected_values] : expected) {
    const std::vector<float>&values = expected_values, &others = moved.at(name);
    std::vector<float>& bound = bounds[name];
    bound.resize(values.size(), 0);
    const State* slot = program().find_state(name);
    for_each_row_group(slot ? slot->part.whole : Shape{}, [&](int64_t begin, int64_t end) {
      double largest = 0;
      for (int64_t i = begin; i < end; ++i) {
        const double value = static_cast<double>(values[i]);
        const double move = std::abs(value - static_cast<double>(others[i]));
        // Scaled gradients in f16 may overflow by rounding alone, and then be anything.
        if (std::isfinite(move))
          largest = std::max({largest, safety * move, kLeast * std::abs(value)});
        else if (std::isfinite(value))
          largest = std::numeric_limits<double>::infinity();
      }
      for (int64_t i = begin; i < end; ++i) bound[i] = std::max(bound[i], static_cast<float>(largest));
    });
  }
}

const Bounds& Reference::left_bounds(int64_t step, Samples samples) {
  Found& found = left_bounds_[step];
  for (; found.samples < count_of(samples); ++found.samples) {
    restore(step);
    trainer_.executor().observe(noise_.sample(found.samples));
    forward_backward(step);
    trainer_.executor().observe(nullptr);
    raise(found.bounds, record_[step].left, read_states(trainer_, left_));
  }
  return found.bounds;
}

double Reference::evaluation_bound(Samples samples) {
  for (; evaluation_samples_ < count_of(samples); ++evaluation_samples_) {
    restore(steps());
    trainer_.executor().observe(noise_.sample(evaluation_samples_));
    const double moved = evaluate().loss;
    trainer_.executor().observe(nullptr);
    evaluation_bound_ = std::max({evaluation_bound_, kSafety * std::abs(moved - evaluation_.loss),
                                  kLeast * std::abs(evaluation_.loss)});
  }
  return evaluation_bound_;
}

States Reference::update(int64_t step, const States& left) {
  restore(step);
  write_states(trainer_, left);
  const StepResult result = trainer_.update(record_[step].number, record_[step].rate);
  States states = read_states(trainer_, lasting_);
  add_report(states, result);
  return states;
}

Bounds Reference::update_bounds(int64_t step, const States& left, const States& reach, const States& updated,
                                Samples samples) {
  Bounds bounds;
  for (int sample = 0; sample < count_of(samples); ++sample) {
    States moved = left;
    for (auto& [name, values] : moved) move_values(values, reach.at(name), sample);
    trainer_.executor().observe(noise_.sample(sample));
    const States after = update(step, moved);
    trainer_.executor().observe(nullptr);
    raise(bounds, updated, after);
  }
  return bounds;
}

}  // namespace trireme::parity
