// Units that differ in a number alone ("h.3", "h.7") and cost the same are one kind. A transformer with one
// layer has one of each kind, and is what the planner takes its costs from.
#include "trireme/run/plan_subject.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <numeric>

#include "trireme/base/error.h"
#include "trireme/passes/plan_check.h"
#include "trireme/train/features.h"
#include "trireme/train/step_programs.h"

namespace trireme {
namespace {

// "h." of "h.3"; a name without a number is its own.
std::string stem(const std::string& unit) {
  return unit.substr(0, unit.find_last_not_of("0123456789") + 1);
}

// For each unit of the whole model, the first of the small model's that is like it; empty where one has none.
std::vector<int> kinds(const Units& whole, const Units& small) {
  std::vector<int> result;
  for (size_t u = 0; u < whole.names.size(); ++u) {
    size_t k = 0;
    while (k < small.names.size() &&
           (stem(whole.names[u]) != stem(small.names[k]) || whole.costs[u] != small.costs[k]))
      ++k;
    if (k == small.names.size()) return {};
    result.push_back(static_cast<int>(k));
  }
  return result;
}

// The presets over the axis tensor that plan_check.h lets pass.
std::vector<std::string> tensor_presets(const Model& model, const Config& config, const Shape& sample) {
  std::vector<std::string> result;
  TrainOptions train = config.train;
  train.accumulate = 1;
  const StepShape shape{2, sample};
  for (const std::string preset : {"megatron", "megatron+sequence", "hybrid_cnn"}) {
    const Plan plan{.mesh = Mesh({{"tensor", 2}}), .preset = preset};
    try {
      check_plan(plan,
                 step_graphs(model, train, config.optim, shape, schedule_of(train, plan), plan).segments);
      result.push_back(preset);
    } catch (const Error&) {  // it does not suit this model
    }
  }
  return result;
}

// Steps that were spread last. Plans that are asked for one after another often have that in common, and it
// is more than half of the work. Whoever asks when, the Programs are the same.
class RecentSteps {
 public:
  std::shared_ptr<const SpreadStep> find(int64_t rows, int64_t microbatches, const Plan& plan) {
    const std::lock_guard lock(mutex_);
    for (const auto& [rows_of_step, step] : kept_) {
      if (rows_of_step == rows && step->serves(plan, microbatches)) return step;
    }
    return nullptr;
  }
  std::vector<std::shared_ptr<const SpreadStep>> of_rows(int64_t rows) {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<const SpreadStep>> result;
    for (const auto& [rows_of_step, step] : kept_) {
      if (rows_of_step == rows) result.push_back(step);
    }
    return result;
  }
  void keep(int64_t rows, std::shared_ptr<const SpreadStep> step) {
    const std::lock_guard lock(mutex_);
    kept_.emplace_front(rows, std::move(step));
    if (kept_.size() > kMost) kept_.pop_back();
  }

 private:
  static constexpr size_t kMost = 8;
  std::mutex mutex_;
  std::deque<std::pair<int64_t, std::shared_ptr<const SpreadStep>>> kept_;
};

}  // namespace

planner::Subject plan_subject(const Config& config, const Shape& sample) {
  return plan_subject(Model(config.model), config, sample);
}

planner::Subject plan_subject(const Model& model, const Config& config, const Shape& sample) {
  if (config.train.shards > 0)
    throw_error(
        "train.shards is {}: shards are dealt over ranks by data alone, and there is nothing to plan; "
        "train.shards=0 leaves it to the planner",
        config.train.shards);
  planner::Subject subject;
  subject.batch = config.train.batch;
  const bool tokens = reads_text(model.record);
  subject.samples_per_row = tokens ? static_cast<double>(tokens_of(sample)) : 1;
  subject.sample = tokens ? "tokens" : "samples";
  subject.precision = precision_of(config.train);
  subject.features = features_of(Plan(), config.train);

  Model small = model;
  const Units units = model_units(model, config.train, {1, sample});
  Units of_small = units;
  // Patterns may name single blocks, which are then not like the others.
  const bool alike =
      config.train.freeze.empty() && config.optim.groups.empty() && model.options.lora.targets.empty();
  if (tokens && model.options.layers > 1 && alike) {
    small.options.layers = 1;
    of_small = model_units(small, config.train, {1, sample});
  }
  subject.kind = kinds(units, of_small);
  if (subject.kind.empty()) {
    small = model;
    of_small = units;
    subject.kind = kinds(units, units);
  }
  if (!alike) std::iota(subject.kind.begin(), subject.kind.end(), 0);
  subject.units = units.names;
  subject.small_units = of_small.names;
  subject.tensor_presets = tensor_presets(small, config, sample);
  subject.tensor_divides = tokens ? std::max<int64_t>(1, model.options.heads) : int64_t{1} << 20;

  const std::shared_ptr<Device> device =
      device_here(config.train, std::max<int>(1, static_cast<int>(config.train.threads)));
  const auto whole_steps = std::make_shared<RecentSteps>(), small_steps = std::make_shared<RecentSteps>();
  subject.programs = [=](const Plan& plan, const planner::BatchShape& batch, planner::Subject::Model which) {
    TrainOptions train = config.train;
    train.batch = batch.rows * batch.microbatches;
    train.accumulate = batch.microbatches;
    const bool whole = which == planner::Subject::Model::kWhole;
    RecentSteps& steps = whole ? *whole_steps : *small_steps;
    std::shared_ptr<StepPrograms> programs;
    if (const auto known = steps.find(batch.rows, batch.microbatches, plan)) {
      programs = std::make_shared<StepPrograms>(known, train, plan);
    } else {
      programs =
          std::make_shared<StepPrograms>(whole ? model : small, train, config.optim,
                                         StepShape{batch.rows, sample}, plan, steps.of_rows(batch.rows));
      steps.keep(batch.rows, programs->spread());
    }
    return [=](int rank) { return programs->rank(rank, device.get()); };
  };
  subject.graph = [=](int64_t rows) {
    TrainOptions train = config.train;
    train.accumulate = 1;
    return step_graphs(small, train, config.optim, {rows, sample}, schedule_of(train)).segments.front().graph;
  };
  subject.model_flops = [=] {
    return model_flops(model, config.train, {config.train.batch / config.train.accumulate, sample});
  };
  return subject;
}

}  // namespace trireme
