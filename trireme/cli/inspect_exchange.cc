// `trireme inspect exchange`: what each method of exchange would send in a step and keep on a rank, from the
// programs that it makes of a plan.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/bench/step_setup.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/inspect_commands.h"
#include "trireme/cli/step_flags.h"
#include "trireme/exchange/choice.h"
#include "trireme/passes/traffic.h"
#include "trireme/train/trainer.h"

namespace trireme::cli {
namespace {

struct Costs {
  double sent_bytes = 0;  // by rank 0 in a step
  size_t kept_bytes = 0;  // on rank 0
  std::string refusal = "";
};

Costs costs_of(const bench::StepSetup& setup, const Plan& plan) {
  Costs costs;
  try {
    const std::unique_ptr<Device> device = make_cpu_device(1);
    const Program program = step_program(setup.config.model, setup.config.train, setup.config.optim,
                                         setup.shape, *device, {plan, /*rank=*/0});
    for (const Action& action : program.find_list("step")->actions) {
      if (action.kind == Action::Kind::kRun)
        costs.sent_bytes += traffic_of(program.segments[program.segment(action.what)].graph).bytes;
    }
    for (const State& state : program.states) {
      if (state.role == Role::kResidual) costs.kept_bytes += state.type.bytes();
    }
  } catch (const Error& error) {
    costs.refusal = error.what();
  }
  return costs;
}

// Of the method as it is where the plan says nothing of its settings.
ExchangeRule standard_rule(const ExchangeMethod& method) {
  return {.method = std::string(method.name)};
}

// Methods that make steps of their own are for plain gradient descent.
bench::StepSetup suited_to(const ExchangeMethod& method, bench::StepSetup setup) {
  if (method.direction == ExchangeMethod::Direction::kGradient) return setup;
  setup.config.optim.kind = "sgd";
  setup.config.train.clip_norm = 0;
  return setup;
}

void print_row(const std::string& name, const Costs& costs, double dense_bytes) {
  if (!costs.refusal.empty()) {
    fmt::print("| {} | {} | | |\n", name, costs.refusal);
    return;
  }
  fmt::print("| {} | {} | {:.1f} | {} |\n", name, format_bytes(static_cast<size_t>(costs.sent_bytes)),
             dense_bytes / costs.sent_bytes, format_bytes(costs.kept_bytes));
}

std::string settings_text(const ExchangeChoice& choice) {
  std::string text(choice.method->name);
  for (const auto& [name, number] : choice.settings.numbers) text += fmt::format(" {}={}", name, number);
  for (const auto& [name, word] : choice.settings.words) text += fmt::format(" {}={}", name, word);
  return text;
}

}  // namespace

int inspect_exchange(std::span<const std::string> arguments) {
  const SplitArguments split = split_settings(arguments);
  bench::StepSource source;
  source.settings = split.settings;
  std::string plan_text = "data";
  int ranks = 0;
  CLI::App app(
      "Prints what each method of exchange would send in a step, and keep on a rank; see docs/exchange.md.",
      "trireme inspect exchange");
  add_step_flags(app, source);
  app.add_option("--plan", plan_text,
                 "a JSON file, or a preset; its own exchange is the first row; data if not said");
  app.add_option("-n,--ranks", ranks, "ranks; default: as many as the plan's mesh has, or 4")
      ->check(CLI::Range(2, 65536));
  if (const auto code = parse_arguments(app, split.own)) return *code;

  Plan plan = read_plan(plan_text, ranks == 0 && find_preset(plan_text) ? 4 : ranks);
  const bench::StepSetup setup = bench::set_up_step(source, plan);
  const std::vector<ExchangeRule> own = plan.exchange;
  plan.exchange.clear();
  const Costs dense = costs_of(setup, plan);
  if (!dense.refusal.empty()) throw_error("{}", dense.refusal);
  fmt::print("{} on the mesh '{}': a rank sends {} in a step where sums are dense\n\n", plan.preset,
             to_string(plan.mesh), format_bytes(static_cast<size_t>(dense.sent_bytes)));
  fmt::print("| exchange | sent by a rank in a step | times less | kept on a rank |\n|---|---|---|---|\n");
  if (!own.empty()) {
    plan.exchange = own;
    print_row("the plan's own", costs_of(setup, plan), dense.sent_bytes);
  }
  for (const ExchangeMethod& method : exchange_methods()) {
    plan.exchange = {standard_rule(method)};
    print_row(settings_text(exchange_choices(plan)[0]), costs_of(suited_to(method, setup), plan),
              dense.sent_bytes);
  }
  return kOk;
}

}  // namespace trireme::cli
