// `trireme train [config.toml] [--section.key=value…] [-n RANKS] [--plan PLAN] [--cluster CLUSTER]
// [--trace FILE] [--print-config]`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <optional>
#include <thread>

#include "trireme/base/output.h"
#include "trireme/base/text.h"
#include "trireme/base/thread_pool.h"
#include "trireme/bench/ceilings.h"
#include "trireme/bench/device_ceilings.h"
#include "trireme/bench/machine.h"
#include "trireme/bench/step_setup.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/auto_plan.h"
#include "trireme/cli/command.h"
#include "trireme/cli/default_text.h"
#include "trireme/cli/launch_flags.h"
#include "trireme/cli/link_choice.h"
#include "trireme/cli/train_report.h"
#include "trireme/comm/context.h"
#include "trireme/comm/launch/last_words.h"
#include "trireme/comm/texts.h"
#include "trireme/exchange/agreement_record.h"
#include "trireme/passes/plan_check.h"
#include "trireme/run/agreement.h"
#include "trireme/run/config.h"
#include "trireme/run/loop.h"
#include "trireme/run/plan_settings.h"
#include "trireme/run/run_folder.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/runtime/rank_traces.h"
#include "trireme/runtime/slowed_communicator.h"
#include "trireme/runtime/traced_communicator.h"
#include "trireme/train/arrival_order.h"
#include "trireme/train/axis_algorithms.h"

namespace trireme::cli {
namespace {

// Signals reach a process, not an object: this flag is the one piece of global state, and only train() reads
// it.
std::atomic<bool> stop_requested{false};

// Calls none but what a handler may call.
void request_stop(int signal) {
  const int error = errno;
  stop_requested.store(true);
  // A second one ends the process at once, unless it is of a terminal that is closed: shells send several.
  std::signal(signal, signal == SIGHUP ? SIG_IGN : SIG_DFL);
  errno = error;
}

void set_signals(RunContext::OnSignal action) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const auto before = std::signal(signal, action == RunContext::OnSignal::kStop ? request_stop : SIG_DFL);
    if (before == SIG_IGN && signal == SIGHUP) std::signal(signal, SIG_IGN);  // nohup
  }
}

// Of all ranks, which measure at the same time.
double peak_flops(const TrainOptions& train, int rank_here, int ranks_here, int ranks) {
  if (train.device != "cpu")
    return bench::measure_product_flops_per_second(
               *make_device({.kind = train.device, .rank_here = rank_here}), precision_of(train)) *
           ranks;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks_here);
  ThreadPool pool(train.threads ? static_cast<int>(train.threads) : cores);
  return bench::measure_flops_per_second(pool) * ranks;
}

// The exit code.
int run_config(const ResolvedConfig& config, const OpenedData& data, const RunContext& context,
               TrainReport report) {
  const RunResult result =
      run_training(config, find_model(config.config.model.family), data, context, report);
  switch (result.end) {
    case RunResult::End::kStopped:
      comm::tell_launcher(comm::LastWords::Kind::order, "stopped");
      return kInterrupted;
    case RunResult::End::kTimeIsUp:
      comm::tell_launcher(comm::LastWords::Kind::order, "the time is up");
      return kTimeIsUp;
    case RunResult::End::kFinished:
    case RunResult::End::kNoBetter:
      break;
  }
  return kOk;
}

// A launcher of others may give its ranks a terminal of its own, whatever it does with what they print.
Progress::Options::Screen screen_under(comm::Launcher launcher) {
  const bool own = launcher == comm::Launcher::none || launcher == comm::Launcher::local;
  return own ? detect_screen() : Progress::Options::Screen::kLines;
}

// What the command line says beside the settings.
struct TrainFlags {
  std::string plan = "data", links, trace, slow, cluster, replay;
  ProductFile products = {};

  bool plans() const { return plan == kAutoPlan; }
};

// What the planner chooses, told to people.
Plan auto_plan(const TrainFlags& flags, const ResolvedConfig& config, int ranks, int ranks_here) {
  const OpenedData data = open_run_data(config.config, default_text());
  const ChosenPlan chosen = choose_plan(config, data, cluster_of_ranks(flags.cluster, ranks), ranks_here);
  say("chosen   {}\n", chosen.said);
  return chosen.plan;
}

// What a step is expected to take, where a cluster is known.
std::optional<ExpectedStep> expected(const TrainFlags& flags, const ResolvedConfig& config,
                                     const OpenedData& data, const Plan& plan, int ranks_here) {
  if (!flags.plans() && flags.cluster.empty()) return std::nullopt;
  const int ranks = std::max(1, plan.mesh.ranks());
  return expected_step(config.config, data, plan, cluster_of_ranks(flags.cluster, ranks), ranks_here);
}

void write_trace(const std::string& path, const Trace& trace, const Plan& plan, comm::Group* world) {
  write_trace_file(path, trace, plan.mesh, world);
  if (world && world->rank() != 0) return;
  say("trace    {}: open it in ui.perfetto.dev{}\n", path,
      trace.full() ? "; it is full, and ends before the run does" : "");
}

std::optional<SlowRank> slow_rank(const std::string& text, int ranks) {
  return text.empty() ? std::nullopt : std::optional(parse_slow_rank(text, ranks));
}

// The same on all ranks: rank 0's choice, where there is one to make.
Plan agreed_plan(const comm::Context& context, const TrainFlags& flags, const ResolvedConfig& config,
                 int ranks_here, comm::Group& world) {
  const bool chooses = flags.plans() && context.rank() == 0;
  const std::string chosen = comm::broadcast_text(
      chooses ? to_json(auto_plan(flags, config, context.ranks(), ranks_here)) : "", world);
  if (!flags.plans()) return read_plan(flags.plan, context.ranks());
  if (chosen.empty()) throw_error("--plan is auto on rank {}, but not on rank 0", context.rank());
  return parse_plan(chosen, "the plan that rank 0 chose");
}

int train_rank(comm::Context& context, ResolvedConfig config, const TrainFlags& flags,
               Progress::Options::Screen screen) {
  const std::string &links = flags.links, &trace_path = flags.trace, &slow = flags.slow;
  comm::Group world = context.world();
  const std::vector<int>& hosts = context.hosts();
  const int here = static_cast<int>(std::ranges::count(hosts, hosts[context.rank()]));
  const Plan plan = agreed_plan(context, flags, config, here, world);
  apply_plan(plan, config);
  check_links(plan, config.config.train, context.device_links());
  Facts facts = facts_of(config, plan);
  facts.push_back(
      {"SIMD target", bench::simd_target(), "this processor"});  // lanes decide how sums are rounded
  const std::string chooser = links.empty() || links == "probe" ? links : "a file";  // rank 0's is used
  facts.push_back({"--links", chooser.empty() ? "not given" : chooser});
  const bool nccl = context.device_links() == comm::DeviceLinks::nccl;
  facts.push_back({"--transport", nccl ? "nccl" : "through memory"});
  facts.push_back({"--products", flags.products.path.empty() ? "not given" : "a file"});
  facts.push_back({"--slow", slow.empty() ? "not given" : slow});
  facts.push_back({"--replay", flags.replay.empty() ? "not given" : "a file"});
  facts.push_back({"--trace", trace_path.empty() ? "not given" : "a file"});
  require_agreement(facts, world);
  const std::string chosen_by = use_links(context, links);
  if (context.rank() == 0) say("{}\n", chosen_by);
  MeshCommunicator communicator(plan.mesh, context, axis_algorithms(plan, config.config.train));
  RunOptions& run = config.config.run;
  std::optional<RunFolder> folder;
  if (context.rank() == 0) folder.emplace(run);
  run.dir = comm::broadcast_text(folder ? folder->path() : "", world);
  RankOptions ranks{plan, context.rank(), &communicator};
  std::optional<SlowedCommunicator> slowed;
  if (const std::optional<SlowRank> one = slow_rank(slow, context.ranks());
      one && one->rank == context.rank())
    ranks.communicator = &slowed.emplace(communicator, one->factor);
  std::optional<Trace> trace;
  std::optional<TracedCommunicator> traced;
  if (!trace_path.empty()) {
    trace = begin_trace(context);
    ranks.trace = &*trace;
    ranks.communicator = &traced.emplace(*ranks.communicator, *trace, context.rank());
  }
  const OpenedData data = open_run_data(config.config, default_text());
  const int code =
      run_config(config, data,
                 {.stop = &stop_requested,
                  .on_signal = set_signals,
                  .ranks = ranks,
                  .world = &world,
                  .ranks_here = here,
                  .rank_here = context.rank_here(),
                  .device_links = context.device_links(),
                  .products = flags.products,
                  .expected = context.rank() == 0 ? expected(flags, config, data, plan, here) : std::nullopt,
                  .replay = flags.replay},
                 {peak_flops(config.config.train, context.rank_here(), here, context.ranks()), screen});
  if (trace) write_trace(trace_path, *trace, plan, &world);
  return code;
}

// A mistake is told once, before any rank is started. What only the data says (vocabulary, size of images) is
// assumed first, because opening the data may take long, and each rank checks again. What is refused so is
// looked at once more with the data, of which it may not be true.
void check_before_start(const Plan& plan, ResolvedConfig config, comm::DeviceLinks links) {
  apply_plan(plan, config);
  check_links(plan, config.config.train, links);
  axis_algorithms(plan, config.config.train);
  const Schedule schedule = schedule_of(config.config.train, plan);
  if (schedule.deal == Schedule::Deal::kWholes) return;  // no tensor is split
  const auto check = [&](const ModelOptions& model, const StepShape& shape) {
    check_plan(plan.of_one_stage(),
               step_graphs(model, config.config.train, config.config.optim, shape, schedule, plan).segments);
  };
  const bench::StepSetup assumed = bench::set_up_step(config.config, "");
  try {
    check(assumed.config.model, assumed.shape);
  } catch (const Error&) {
    const OpenedData data = open_run_data(config.config, default_text());
    check(complete_model(find_model(config.config.model.family), config.config, data),
          {assumed.shape.rows, data.input});
  }
}

void check_replay(const std::string& path, const Plan& plan) {
  bool any = false;
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
    if (!goes_by_arrivals(plan.agreement, rank)) continue;
    read_arrivals(path, plan.agreement, plan.mesh.ranks(), rank);
    any = true;
  }
  if (!any)
    throw_error(
        "--replay gives a server, or ranks that mix weights at their own pace, the order of an earlier run; "
        "the plan has neither, and gives the same bits again by itself");
}

}  // namespace

int train(std::span<const std::string> arguments) {
  const SplitArguments split = split_settings(arguments);
  CLI::App app(
      fmt::format("Trains a model; without a config, a small language model on the text of this repository.\n"
                  "Ctrl-C, SIGTERM or SIGHUP finishes the step, saves a checkpoint and exits with code {}.",
                  static_cast<int>(kInterrupted)),
      "trireme train");
  std::string path;
  TrainFlags flags;
  bool print_config = false;
  comm::LaunchOptions launch;
  app.add_option("config", path, "a TOML file");
  add_launch_flags(app, launch);
  app.add_option(
         "--plan", flags.plan,
         fmt::format("how it is spread over the ranks: a plan in JSON, a file with one, or {}; auto: the "
                     "fastest on --cluster",
                     join(preset_plans(), ", ")))
      ->capture_default_str();
  app.add_option("--cluster", flags.cluster,
                 "what the ranks run on, as `trireme profile` writes it: --plan auto chooses by it, and the "
                 "log has what a step was expected to take; for --plan auto local.toml, if not said")
      ->type_name("FILE");
  app.add_option(
         "--links", flags.links,
         "choose the algorithms of collectives by measured links: a file that `trireme bench collectives "
         "--calibrate` wrote, or probe; fixed rules, if not said")
      ->type_name("FILE");
  app.add_option(
         "--products", flags.products.path,
         "algorithms of a GPU's matrix products: a file that `trireme bench train --tune` wrote; what "
         "cuBLASLt proposes, if not said")
      ->type_name("FILE");
  app.add_option("--trace", flags.trace,
                 "write what each rank did when: segments, waits, collectives, messages; for ui.perfetto.dev")
      ->type_name("FILE");
  app.add_option("--slow", flags.slow, "as if a rank computed slower: rank=2,factor=3")->type_name("WHO");
  app.add_option("--replay", flags.replay,
                 "of a plan with a server, or with ad_psgd: take gradients, or weights, in the order of the "
                 "run whose metrics.jsonl this is")
      ->type_name("FILE");
  app.add_flag("--print-config", print_config, "show each setting and where it comes from, and stop");
  if (const auto code = parse_arguments(app, split, "\n" + config_help())) return *code;

  ConfigSources sources{.environment = process_environment(), .command_line = split.settings};
  if (!path.empty()) sources.file = read_config_file(path);
  ResolvedConfig config = resolve_config(sources);
  if (print_config) {
    fmt::print("{}", config_table(config));
    return kOk;
  }
  std::signal(SIGPIPE, SIG_IGN);  // a run whose output nobody reads goes on (base/output.h)
  take_device_links(launch, config.config.train.device == "cuda" && cuda_device_count() == 1);
  check_links(config.config.train.device, launch.device_links);
  if (launch.device_links == comm::DeviceLinks::nccl && !flags.slow.empty())
    throw_error("--slow makes a rank late for its transport, and NCCL is none; leave one of them out");
  const comm::LaunchEnvironment environment = comm::detect(comm::process_variables(), launch);
  if (!flags.trace.empty() && environment.rank == 0) check_trace_file(flags.trace);
  const Progress::Options::Screen screen = screen_under(environment.launcher);
  if (environment.ranks == 1 && !environment.starts_ranks) {
    if (!flags.replay.empty()) check_replay(flags.replay, Plan());
    if (!flags.slow.empty())
      throw_error("--slow is of one rank among several, and there is one; -n starts more");
    RankOptions alone{flags.plans()             ? auto_plan(flags, config, 1, 1)
                      : app.count("--plan") > 0 ? read_plan(flags.plan, 1)
                                                : Plan()};
    apply_plan(alone.plan, config);
    Trace trace;
    if (!flags.trace.empty()) alone.trace = &trace;
    const OpenedData data = open_run_data(config.config, default_text());
    const int code = run_config(config, data,
                                {.stop = &stop_requested,
                                 .on_signal = set_signals,
                                 .ranks = alone,
                                 .products = flags.products,
                                 .expected = expected(flags, config, data, alone.plan, 1)},
                                {peak_flops(config.config.train, 0, 1, 1), screen});
    if (alone.trace) write_trace(flags.trace, trace, alone.plan, nullptr);
    return code;
  }
  slow_rank(flags.slow, environment.ranks);  // or an Error, told once
  if (flags.plans() || !flags.cluster.empty()) cluster_of_ranks(flags.cluster, environment.ranks);
  if (!flags.plans()) {
    const Plan plan = read_plan(flags.plan, environment.ranks);
    check_before_start(plan, config, launch.device_links);
    if (!flags.replay.empty()) check_replay(flags.replay, plan);
    // Of the transports, tcp alone goes on without a rank.
    if (!dispensable_ranks(plan.agreement).empty() && launch.transport == "tcp") launch.needed_ranks = 1;
  }
  return comm::run_launched(
      launch, [&](comm::Context& context) { return train_rank(context, config, flags, screen); });
}

}  // namespace trireme::cli
