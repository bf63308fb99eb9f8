// `trireme inspect exchange`: what each method of exchange would send in a step and keep on a rank, from the
// programs that it makes of a plan; and how long a step would take over a link.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/bench/rank_alone.h"
#include "trireme/bench/step_setup.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/launch_flags.h"
#include "trireme/cli/step_flags.h"
#include "trireme/exchange/choice.h"
#include "trireme/plan/agreement.h"
#include "trireme/sim/over_link.h"
#include "trireme/train/step_programs.h"
#include "trireme/train/trainer.h"

namespace trireme::cli {
namespace {

using MaybeLink = std::optional<comm::EmulatedLink>;

struct Costs {
  double sent_bytes = 0;  // by rank 0 in a step
  size_t kept_bytes = 0;  // on rank 0
  double computing_seconds = 0, step_seconds = 0;
  std::string refusal = "";
};

// A server sends nothing by itself, and all its workers send the same.
int rank_of_interest(const Plan& plan) {
  const Servers* const servers = plan.agreement.servers();
  return servers ? servers->rank_of(0) : 0;
}

// `step_seconds`: what a rank computes, whatever the method; 0: that is measured, with the method.
Costs costs_of(const bench::StepSetup& setup, const Plan& plan, const MaybeLink& link, double step_seconds) {
  Costs costs;
  try {
    const std::unique_ptr<Device> device = make_cpu_device(1);
    const StepPrograms programs(Model(setup.config.model), setup.config.train, setup.config.optim,
                                setup.shape, plan);
    const int rank = rank_of_interest(plan);
    const Program program = programs.rank(rank, device.get());
    costs.sent_bytes = bytes_sent_in_step(program);
    if (link) {
      costs.computing_seconds = step_seconds > 0 ? step_seconds : bench::seconds_of_rank_alone(setup, plan);
      const sim::SimReport report = sim::step_over(
          *link, plan, [&](int other) { return programs.rank(other, nullptr); }, costs.computing_seconds,
          rank);
      costs.step_seconds = report.step_seconds + sim::stop_seconds_over(*link, plan);
    }
    for (const State& state : program.states) {
      if (state.role == Role::kResidual) costs.kept_bytes += state.type.bytes();
    }
  } catch (const Error& error) {
    costs.refusal = error.what();
  }
  return costs;
}

// Methods that make steps of their own are for plain gradient descent.
bench::StepSetup suited_to(const ExchangeMethod& method, bench::StepSetup setup) {
  if (method.direction == ExchangeMethod::Direction::kGradient) return setup;
  setup.config.optim.kind = "sgd";
  setup.config.train.clip_norm = 0;
  return setup;
}

class Table {
 public:
  explicit Table(MaybeLink link) : link_(std::move(link)) {
    fmt::print(
        "| exchange | sent by a rank in a step | times less | kept on a rank |{}\n|---|---|---|---|{}\n",
        link_ ? " ms computed | ms waited for others | ms a step |" : "", link_ ? "---|---|---|" : "");
  }

  void add(const std::string& name, const Costs& costs) {
    if (!costs.refusal.empty()) {
      fmt::print("| {} | {} | | |{}\n", name, costs.refusal, link_ ? " | | |" : "");
      return;
    }
    if (dense_bytes_ == 0) {
      dense_bytes_ = costs.sent_bytes;
      dense_seconds_ = costs.computing_seconds;
    }
    fmt::print("| {} | {} | {:.1f} | {} |", name, format_bytes(static_cast<size_t>(costs.sent_bytes)),
               dense_bytes_ / costs.sent_bytes, format_bytes(costs.kept_bytes));
    const double seconds = costs.step_seconds;
    if (link_)
      fmt::print(" {:.1f} | {:.1f} | {:.1f} |", 1e3 * costs.computing_seconds,
                 1e3 * std::max(0.0, seconds - costs.computing_seconds), 1e3 * seconds);
    fmt::print("\n");
    if (fastest_.empty() || seconds < least_seconds_) {
      fastest_ = name;
      least_seconds_ = seconds;
    }
  }

  // Which has the shortest steps, and from where on dense sums are no burden.
  void conclude(double parameters, double ranks) const {
    if (!link_) return;
    const double bits = 32 * parameters / dense_seconds_, factor = 2 * (ranks - 1) / ranks;
    fmt::print(
        "\n"
        "the shortest step over this link: {}\n"
        "dense sums take as long as the {:.1f} ms of computing at {:.3g} Gbit/s (32n/t), or {:.3g} Gbit/s "
        "with what an all-reduce sends\n",
        fastest_, 1e3 * dense_seconds_, bits / 1e9, bits * factor / 1e9);
  }

 private:
  MaybeLink link_;
  double dense_bytes_ = 0, dense_seconds_ = 0, least_seconds_ = 0;
  std::string fastest_;
};

std::string settings_text(const std::string& name, const ExchangeSettings& settings) {
  std::string text = name;
  for (const auto& [key, number] : settings.numbers) text += fmt::format(" {}={}", key, number);
  for (const auto& [key, word] : settings.words) text += fmt::format(" {}={}", key, word);
  return text;
}

}  // namespace

int inspect_exchange(std::span<const std::string> arguments) {
  const SplitArguments split = split_settings(arguments);
  bench::StepSource source;
  source.settings = split.settings;
  std::string plan_text = "data";
  int ranks = 0;
  MaybeLink link;
  double step_seconds = 0;
  CLI::App app(
      "Prints what each method of exchange would send in a step, and keep on a rank; with a link, how long "
      "a step would take over it. See docs/exchange.md.",
      "trireme inspect exchange");
  add_step_flags(app, source);
  app.add_option("--plan", plan_text,
                 "a plan file or a preset; its exchange is the second row; default: data");
  app.add_option("-n,--ranks", ranks, "ranks; default: as many as the plan's mesh has, or 4")
      ->check(CLI::Range(2, 65536));
  add_link_flag(app, link);
  app.add_option(
         "--step-seconds", step_seconds,
         "what a rank computes in a step, whatever the method; if not said, measured here, by one alone, "
         "with what each method computes")
      ->check(CLI::PositiveNumber)
      ->needs("--link");
  if (const auto code = parse_arguments(app, split)) return *code;

  Plan plan = read_plan(plan_text, ranks == 0 && find_preset(plan_text) ? 4 : ranks);
  const bench::StepSetup setup = bench::set_up_step(source, plan);
  const Agreement own = std::exchange(plan.agreement, {});
  const Costs dense = costs_of(setup, plan, link, step_seconds);
  if (!dense.refusal.empty()) throw_error("{}", dense.refusal);
  fmt::print("{} on the mesh '{}'{}\n\n", plan.preset, to_string(plan.mesh),
             link ? fmt::format(", over a link as {}", to_text(*link)) : "");
  Table table(link);
  table.add("dense", dense);
  if (!own.rules().empty()) {
    plan.agreement = own;
    table.add("the plan's own", costs_of(setup, plan, link, step_seconds));
  }
  for (const ExchangeMethod& method : exchange_methods()) {
    plan.agreement = Agreement({{.method = std::string(method.name)}}, plan.mesh.ranks());
    if (plan.agreement.is_dense()) continue;
    table.add(settings_text(plan.agreement.method(), plan.agreement.settings()),
              costs_of(suited_to(method, setup), plan, link, step_seconds));
  }
  for (const ExchangeRule& rule : weight_rules()) {
    plan.agreement = Agreement({rule}, plan.mesh.ranks());
    table.add(settings_text(rule.method, plan.agreement.settings()),
              costs_of(setup, plan, link, step_seconds));
  }
  const std::unique_ptr<Device> device = make_cpu_device(1);
  plan.agreement = {};
  table.conclude(static_cast<double>(step_program(setup.config.model, setup.config.train, setup.config.optim,
                                                  setup.shape, *device, {plan, 0})
                                         .parameters),
                 static_cast<double>(plan.mesh.ranks()));
  return kOk;
}

}  // namespace trireme::cli
