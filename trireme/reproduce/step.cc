// See step.h.
#include "trireme/reproduce/step.h"

#include <fmt/format.h>

#include "trireme/bench/prediction.h"
#include "trireme/exchange/choice.h"
#include "trireme/run/plan_settings.h"
#include "trireme/train/step_programs.h"

namespace trireme::reproduce {

Step read_step(const Settings& settings, const std::string& plan_text) {
  Step step;
  if (!plan_text.empty()) step.plan = read_plan(plan_text, 0);
  ConfigSources sources;
  sources.command_line = {"data.path=none"};  // image models ask for one
  sources.command_line.insert(sources.command_line.end(), settings.begin(), settings.end());
  ResolvedConfig config = resolve_config(sources);
  apply_plan(step.plan, config);
  step.setup = bench::set_up_step(std::move(config.config), "deck");
  return step;
}

std::vector<Value> parameters_of(const Step& step) {
  const Config& config = step.setup.config;
  return step_graphs(Model(config.model), config.train, config.optim, step.setup.shape,
                     schedule_of(config.train, step.plan), step.plan)
      .parameters;
}

double parameter_count(const Step& step) {
  int64_t count = 0;
  for (const Value& parameter : parameters_of(step)) count += parameter.type.shape.elements();
  return static_cast<double>(count);
}

double model_flops_of(const Step& step) {
  return model_flops(Model(step.setup.config.model), step.setup.config.train, step.setup.shape);
}

Program program_of(const Step& step, int rank) {
  const Config& config = step.setup.config;
  return StepPrograms(Model(config.model), config.train, config.optim, step.setup.shape, step.plan)
      .rank(rank, nullptr);
}

double model_state_bytes(const Program& program) {
  size_t bytes = 0;
  for (const State& state : program.states) {
    const bool is_gradient_or_moment = state.role == Role::kGradient || state.role == Role::kOptimizer;
    // Losses and counts are added up as gradients are, but are of no parameter.
    if (state.role == Role::kParameter || state.role == Role::kMaster ||
        (is_gradient_or_moment && state.attrs.has("of")))
      bytes += state.type.bytes();
  }
  return static_cast<double>(bytes);
}

double payload_bytes(const Step& step, const std::string& exchange) {
  constexpr int kRanks = 2;
  const Plan plan =
      parse_plan(fmt::format(R"({{"mesh": "data:{}", "exchange": {}}})", kRanks, exchange), "the deck");
  const std::vector<ExchangeChoice> choices = exchange_choices(plan.agreement);
  double bytes = 0;
  for (const Value& parameter : parameters_of(step)) {
    const Shape& shape = parameter.type.shape;
    const ExchangeChoice* const choice = choice_for(choices, parameter, shape);
    bytes += choice && !choice->dense ? choice->method->bytes(shape, kRanks, choice->settings)
                                      : bytes_of_sum(kRanks, static_cast<double>(parameter.type.bytes()));
  }
  return bytes;
}

sim::SimReport simulated(const Step& step, const Cluster& cluster, sim::Overlap overlap) {
  return bench::predict(step.setup, step.plan, cluster, {.overlap = overlap}).report;
}

}  // namespace trireme::reproduce
