// See reference.h.
#include "trireme/train/parity/reference.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"

namespace trireme::parity {
namespace {

// Noisy runs, and what their largest move is multiplied by. The largest of so few samples is a low estimate
// of the largest that there is, and of a scalar all may be small by chance. A real
// mistake (a part left out, counted twice, weighed wrongly) is off by a part of the value, 10^4 and more
// times the noise of f32.
constexpr int kSamples = 6;
constexpr double kSafety = 8;

// Of each result, at least so much is rounding: two units in the last place.
constexpr double kLeast = 0x1p-22;

// Raises bounds to what a noisy run has shown.
void raise(Bounds& bounds, const States& expected, const States& moved) {
  for (const auto& [name, values] : expected) {
    const std::vector<float>& others = moved.at(name);
    double& bound = bounds[name];
    for (size_t i = 0; i < values.size(); ++i) {
      const double move = std::abs(static_cast<double>(values[i]) - static_cast<double>(others[i]));
      const double least = kLeast * std::abs(static_cast<double>(values[i]));
      if (std::isfinite(move)) bound = std::max({bound, kSafety * move, least});
    }
  }
}

void add_report(States& states, const StepResult& result) {
  states["loss"] = {static_cast<float>(result.loss)};
  states["norm"] = {static_cast<float>(result.norm)};
}

}  // namespace

Reference::Reference(Training training)
    : training_(std::move(training)),
      device_(make_device({.kind = training_.train.device})),
      trainer_(training_.model, training_.train, training_.optim, training_.shape, *device_),
      noise_(trainer_.program()),
      lasting_(states_of(trainer_.program(), StateGroup::kLasting)),
      left_(states_of(trainer_.program(), StateGroup::kLeft)) {
  TRIREME_CHECK(training_.rates.size() == training_.batches.size());
  trainer_.initialise(static_cast<uint64_t>(training_.train.seed));
  for (int64_t step = 0; step <= steps(); ++step) {
    Step& now = record_.emplace_back();
    now.before = read_states(trainer_, lasting_);
    now.loss_scale = trainer_.loss_scale;
    now.scale_age = trainer_.scale_age;
    if (step == steps()) break;
    forward_backward(step);
    now.left = read_states(trainer_, left_);
    now.result = trainer_.update(step, training_.rates[step]);
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
  trainer_.forward_backward(training_.batches[step], step);
}

Evaluation Reference::evaluate() {
  Evaluation evaluation;
  trainer_.evaluate(training_.batches.back(), evaluation);
  return evaluation;
}

const Bounds& Reference::left_bounds(int64_t step) {
  const auto [found, fresh] = left_bounds_.try_emplace(step);
  for (int sample = 0; sample < kSamples && fresh; ++sample) {
    restore(step);
    trainer_.executor().observe(noise_.sample(sample));
    forward_backward(step);
    trainer_.executor().observe(nullptr);
    raise(found->second, record_[step].left, read_states(trainer_, left_));
  }
  return found->second;
}

double Reference::evaluation_bound() {
  for (int sample = 0; sample < kSamples && evaluation_bound_ < 0; ++sample) {
    restore(steps());
    trainer_.executor().observe(noise_.sample(sample));
    const double moved = evaluate().loss;
    trainer_.executor().observe(nullptr);
    evaluation_bound_ = std::max({evaluation_bound_, kSafety * std::abs(moved - evaluation_.loss),
                                  kLeast * std::abs(evaluation_.loss)});
  }
  return evaluation_bound_;
}

Reference::Updated Reference::update(int64_t step, const States& left, const States& reach) {
  Updated updated;
  restore(step);
  write_states(trainer_, left);
  const StepResult result = trainer_.update(step, training_.rates[step]);
  updated.states = read_states(trainer_, lasting_);
  add_report(updated.states, result);
  for (int sample = 0; sample < kSamples; ++sample) {
    restore(step);
    States moved = left;
    for (auto& [name, values] : moved) move_values(values, reach.at(name), sample);
    write_states(trainer_, moved);
    trainer_.executor().observe(noise_.sample(sample));
    const StepResult moved_result = trainer_.update(step, training_.rates[step]);
    trainer_.executor().observe(nullptr);
    States after = read_states(trainer_, lasting_);
    add_report(after, moved_result);
    raise(updated.bounds, updated.states, after);
  }
  return updated;
}

}  // namespace trireme::parity
