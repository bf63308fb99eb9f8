// See job.h. What a rank needs is settled in this order: plan, agreement with the other ranks, run folder,
// data.
#include "trireme/run/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>

#include "trireme/base/output.h"
#include "trireme/base/text.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/comm/calibrate.h"
#include "trireme/comm/context.h"
#include "trireme/comm/group.h"
#include "trireme/comm/launch/job_memory.h"
#include "trireme/comm/launch/last_words.h"
#include "trireme/exchange/agreement_record.h"
#include "trireme/kernels/kernel.h"
#include "trireme/passes/plan_check.h"
#include "trireme/run/agreement.h"
#include "trireme/run/auto_plan.h"
#include "trireme/run/flight_file.h"
#include "trireme/run/memory_copies.h"
#include "trireme/run/plan_settings.h"
#include "trireme/run/run_folder.h"
#include "trireme/run/run_record.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/runtime/rank_traces.h"
#include "trireme/runtime/slowed_communicator.h"
#include "trireme/runtime/traced_communicator.h"
#include "trireme/train/arrival_order.h"
#include "trireme/train/axis_algorithms.h"

namespace trireme {
namespace {

// Signals reach a process, not an object: this flag is the one piece of global state, and only jobs read it.
std::atomic<bool> stop_requested{false};

// Calls only what a signal handler may call.
void request_stop(int signal) {
  const int error = errno;
  stop_requested.store(true);
  // A second signal ends the process at once, but for SIGHUP: shells send several when a terminal is closed.
  std::signal(signal, signal == SIGHUP ? SIG_IGN : SIG_DFL);
  errno = error;
}

// That the launcher wants to start the ranks again, in another number (comm/launch/local_launcher.h).
std::atomic<bool> regroup_requested{false};
void request_regroup(int /*signal*/) {
  regroup_requested.store(true);
}

void set_signals(RunContext::OnSignal action) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const auto before = std::signal(signal, action == RunContext::OnSignal::kStop ? request_stop : SIG_DFL);
    if (before == SIG_IGN && signal == SIGHUP) std::signal(signal, SIG_IGN);  // nohup
  }
}

// Collective. Returns a line for people. Fixed rules are the default because results have to be the same bits
// in every run: algorithms add in different orders, and what a probe finds the fastest changes from run to
// run.
std::string use_links(comm::Context& context, const std::string& links) {
  if (links.empty()) return "collectives by fixed rules";
  if (links != "probe") {
    context.set_links(comm::read_links(context, links));
    return fmt::format("collectives by the links in {}", links);
  }
  const auto begin = std::chrono::steady_clock::now();
  context.set_links(comm::measure_links(context, {}));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  return fmt::format(
      "collectives by a probe of the links ({:.0f} ms); other runs may choose otherwise and round otherwise",
      took.count());
}

std::string given(const std::string& value, std::string_view instead = "a file") {
  return value.empty() ? "not given" : std::string(instead);
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

class Job {
 public:
  Job(const ResolvedConfig& config, RunObserver& observer, const JobOptions& options)
      : config_(config),
        observer_(observer),
        options_(options),
        model_(options.model ? *options.model : find_model(config.config.model)) {}

  int run() {
    if (!options_.stop)
      std::signal(SIGPIPE, SIG_IGN);  // a run whose output nobody reads goes on (base/output.h)
    comm::LaunchOptions launch = options_.launch;
    check_links(config_.config.train.device, launch.device_links);
    if (launch.device_links == comm::DeviceLinks::nccl && !options_.slow.empty())
      throw_error("--slow makes a rank late for its transport, and NCCL is none; leave one of them out");
    const comm::LaunchEnvironment environment = comm::detect(comm::process_variables(), launch);
    launcher_ = environment.launcher;
    if (launch.restarts > 0) check_restarts(environment, "--restarts");
    if (launch.elastic) check_restarts(environment, "--elastic");
    if (launch.elastic && environment.starts_ranks) check_elastic(environment.ranks);
    if (config_.config.run.memory_copy_every > 0 && launch.restarts == 0 && !launch.elastic)
      throw_error(
          "run.memory_copy_every is {}, but copies in memory are gone with the job, and nothing starts its ranks again; "
          "add --restarts N or --elastic MIN:MAX, or leave it out",
          config_.config.run.memory_copy_every);
    memory_ = environment.memory;
    again_ = environment.again;
    if (!options_.trace.empty() && environment.rank == 0) check_trace_file(options_.trace);
    if (environment.ranks == 1 && !environment.starts_ranks) return run_alone();
    slow_rank(environment.ranks);
    if (plans() || !options_.cluster.empty()) cluster_of_ranks(options_.cluster, environment.ranks);
    if (!plans()) {
      const Plan plan = given_plan(environment.ranks);
      check_before_start(plan, config_);
      if (keeps_copies()) check_copies(plan);
      if (!options_.replay.empty()) check_replay(options_.replay, plan);
      // Only the transport tcp can continue without a rank.
      if (!dispensable_ranks(plan.agreement).empty() && launch.transport == "tcp") launch.needed_ranks = 1;
    }
    if (launch.elastic) launch.elastic->fits = [this](int ranks) { return why_not(ranks).empty(); };
    std::optional<comm::JobMemory> memory;
    if (environment.starts_ranks && keeps_copies()) launch.memory = memory.emplace().path();
    if (environment.starts_ranks) launch.on_loss = [this](const comm::FlightRecord& record) { keep(record); };
    const int code = comm::run_launched(launch, [&](comm::Context& context) { return run_rank(context); });
    if (memory && code != kOk) {
      if (const std::string path = rescue_copy(memory->path(), config_.config.run.dir); !path.empty())
        say(stderr, "trireme: the newest copy in memory is now {}\n", path);
    }
    return code;
  }

 private:
  bool plans() const { return options_.plan == kAutoPlan; }
  Plan given_plan(int ranks) const {
    const std::string plan = options_.plan.empty() ? "data" : options_.plan;
    const std::optional<comm::ElasticRanks>& elastic = options_.launch.elastic;
    return elastic ? with_ranks(read_plan(plan, elastic->most), ranks) : read_plan(plan, ranks);
  }
  bool keeps_copies() const { return options_.launch.elastic || config_.config.run.memory_copy_every > 0; }
  // Of ranks that were lost. What can not be written ends nothing.
  void keep(const comm::FlightRecord& record) {
    try {
      if (flight_.empty()) flight_ = new_flight_file(config_.config.run.dir);
      replace_file(flight_, render_flight({wall_seconds(), record}));
      say(stderr, "trireme: what the ranks did last: trireme inspect flight {}\n", flight_);
    } catch (const Error& error) {
      say(stderr, "trireme: {}\n", error.what());
    }
  }
  static void check_copies(const Plan& plan) {
    for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
      if (plan.agreement.servers() || goes_by_arrivals(plan.agreement, rank))
        throw_error(
            "with the exchange {} ranks go at their own pace, so there is no step of which --elastic or "
            "run.memory_copy_every could keep a copy in memory; leave these out, and use --restarts alone",
            plan.agreement.method());
    }
  }
  // Why the job can not go on with so many ranks; "": it can.
  std::string why_not(int ranks) const {
    try {
      slow_rank(ranks);
      check_before_start(given_plan(ranks), config_);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  void check_elastic(int ranks) const {
    const comm::ElasticRanks& elastic = *options_.launch.elastic;
    const std::string given = fmt::format("--elastic {}:{}", elastic.fewest, elastic.most);
    if (plans())
      throw_error(
          "{}: --plan auto may choose a mesh that fewer ranks can not have; name a plan, such as data",
          given);
    // A plan that never shrinks needs another way to go on.
    std::string why;
    for (int fewer = ranks - 1; fewer >= elastic.fewest; --fewer) {
      why = why_not(fewer);
      if (why.empty()) return;
    }
    if (options_.launch.restarts == 0)
      throw_error(
          "{}: the job can not go on with fewer ranks: {}. Add --restarts N to start all {} again instead",
          given, why, ranks);
  }
  // A job that is started again resumes from the folder that the first start made.
  void check_restarts(const comm::LaunchEnvironment& environment, std::string_view flag) const {
    if (launcher_ != comm::Launcher::local || options_.launch.device_links == comm::DeviceLinks::in_memory)
      throw_error(
          "{} is for ranks that -n starts as processes, and {}; let what starts them start them again: the run "
          "resumes from its newest checkpoint",
          flag,
          launcher_ == comm::Launcher::local
              ? "those that share a GPU are threads"
              : fmt::format("these were started by {}", environment.launched_by));
    const RunOptions& run = config_.config.run;
    if (run.dir.empty())
      throw_error("{} needs run.dir, the folder to resume from; without it, each start makes a new one",
                  flag);
    if (run.resume == "never")
      throw_error("{} resumes from the newest checkpoint, but run.resume is 'never'; leave one of them out",
                  flag);
  }
  OpenedData open(const Config& config) const {
    return options_.open_data ? options_.open_data(config) : open_run_data(config, options_.default_text);
  }
  // Throws Error where the options name no rank of the job.
  std::optional<SlowRank> slow_rank(int ranks) const {
    return options_.slow.empty() ? std::nullopt : std::optional(parse_slow_rank(options_.slow, ranks));
  }
  // The fastest plan that the planner finds.
  Plan auto_plan(int ranks, int ranks_here) {
    const ChosenPlan chosen = choose_plan(config_, model_, open(config_.config),
                                          cluster_of_ranks(options_.cluster, ranks), ranks_here);
    observer_.note("chosen   " + chosen.said);
    return chosen.plan;
  }
  // The same on all ranks: rank 0's choice, where there is one to make.
  Plan agreed_plan(const comm::Context& context, int ranks_here, comm::Group& world) {
    const bool chooses = plans() && context.rank() == 0;
    const std::string chosen =
        comm::broadcast_text(chooses ? to_json(auto_plan(context.ranks(), ranks_here)) : "", world);
    if (!plans()) return given_plan(context.ranks());
    if (chosen.empty()) throw_error("--plan is auto on rank {}, but not on rank 0", context.rank());
    return parse_plan(chosen, "the plan that rank 0 chose");
  }
  // What a step is expected to take, where a cluster is known.
  std::optional<SimulatedStep> simulated(const ResolvedConfig& config, const OpenedData& data,
                                         const Plan& plan, int ranks_here) const {
    if (!plans() && options_.cluster.empty()) return std::nullopt;
    const int ranks = std::max(1, plan.mesh.ranks());
    return simulated_step(config.config, model_, data, plan, cluster_of_ranks(options_.cluster, ranks),
                          ranks_here);
  }

  // A mistake is reported once, before any rank is started. Vocabulary and image size are known from the data
  // alone, and opening it may take long, so usual ones are assumed first. Where that is refused, the data
  // decides.
  void check_before_start(const Plan& plan, ResolvedConfig config) const {
    apply_plan(plan, config);
    check_links(plan, config.config.train, options_.launch.device_links);
    axis_algorithms(plan, config.config.train);
    const Schedule schedule = schedule_of(config.config.train, plan);
    if (schedule.deal == Schedule::Deal::kWholes) return;  // no tensor is split
    const auto check = [&](const ModelOptions& options, const Shape& sample) {
      const StepShape shape{config.config.train.batch / config.config.train.accumulate, sample};
      check_plan(plan.of_one_stage(), step_graphs(Model(model_, options), config.config.train,
                                                  config.config.optim, shape, schedule, plan)
                                          .segments);
    };
    try {
      const ModelOptions assumed = assumed_model(model_, config.config.model);
      check(assumed, model_.usual_sample(assumed));
    } catch (const Error&) {
      const OpenedData data = open(config.config);
      check(complete_model(model_, config.config, data), data.input);
    }
  }

  void require_same_job(const comm::Context& context, const ResolvedConfig& config, const Plan& plan,
                        comm::Group& world) const {
    Facts facts = facts_of(config, plan);
    facts.push_back({"SIMD target", simd_target(), "this processor"});  // lanes decide how sums are rounded
    const bool probes = options_.links == "probe";
    facts.push_back(
        {"--links", given(options_.links, probes ? "probe" : "a file")});  // rank 0's file is used
    const bool nccl = context.device_links() == comm::DeviceLinks::nccl;
    facts.push_back({"--transport", nccl ? "nccl" : "through memory"});
    facts.push_back({"--products", given(options_.products.path)});
    facts.push_back({"--slow", given(options_.slow, options_.slow)});
    facts.push_back({"--replay", given(options_.replay)});
    facts.push_back({"--trace", given(options_.trace)});
    require_agreement(facts, world);
  }

  // All steps with --trace, else run.timeline_step alone.
  bool traces(const ResolvedConfig& config) const {
    return !options_.trace.empty() || config.config.run.timeline_step > 0;
  }
  Trace::Begins trace_begins() const {
    return options_.trace.empty() ? Trace::Begins::kPaused : Trace::Begins::kRecording;
  }

  int run_alone() {
    if (!options_.replay.empty()) check_replay(options_.replay, Plan());
    if (!options_.slow.empty())
      throw_error("--slow is of one rank among several, and there is one; -n starts more");
    ResolvedConfig config = config_;
    RankOptions alone{plans() ? auto_plan(1, 1) : options_.plan.empty() ? Plan() : given_plan(1)};
    apply_plan(alone.plan, config);
    Trace trace(Trace::Clock::now(), trace_begins());
    if (traces(config)) alone.trace = &trace;
    return train(config, {.ranks = alone});
  }

  int run_rank(comm::Context& context) {
    ResolvedConfig config = config_;
    comm::Group world = context.world();
    const std::vector<int>& hosts = context.hosts();
    const int here = static_cast<int>(std::ranges::count(hosts, hosts[context.rank()]));
    const Plan plan = agreed_plan(context, here, world);
    apply_plan(plan, config);
    check_links(plan, config.config.train, context.device_links());
    require_same_job(context, config, plan, world);
    const std::string chosen_by = use_links(context, options_.links);
    if (context.rank() == 0) observer_.note(chosen_by);
    MeshCommunicator communicator(plan.mesh, context, axis_algorithms(plan, config.config.train));
    RunOptions& run = config.config.run;
    std::optional<RunFolder> folder;
    if (context.rank() == 0) folder.emplace(run);
    run.dir = comm::broadcast_text(folder ? folder->path() : "", world);
    RankOptions ranks{plan, context.rank(), &communicator};
    std::optional<SlowedCommunicator> slowed;
    if (const auto slow = slow_rank(context.ranks()); slow && slow->rank == context.rank())
      ranks.communicator = &slowed.emplace(communicator, slow->factor);
    std::optional<Trace> trace;
    std::optional<TracedCommunicator> traced;
    if (traces(config)) {
      trace = begin_trace(context, trace_begins());
      ranks.trace = &*trace;
      ranks.communicator = &traced.emplace(*ranks.communicator, *trace, context.rank());
    }
    return train(config, {.ranks = ranks,
                          .world = &world,
                          .ranks_here = here,
                          .rank_here = context.rank_here(),
                          .device_links = context.device_links()});
  }

  // The run of this rank, and its exit code.
  int train(const ResolvedConfig& config, RunContext context) {
    const Plan& plan = context.ranks.plan;
    const OpenedData data = open(config.config);
    const bool leads = context.ranks.rank == 0;
    context.stop = options_.stop ? options_.stop : &stop_requested;
    if (!options_.stop) context.on_signal = set_signals;
    context.memory = memory_;
    context.again = again_;
    if (launcher_ == comm::Launcher::local && options_.launch.elastic) {
      context.regroup = &regroup_requested;
      context.on_signal = [keeps_signals = options_.stop != nullptr](RunContext::OnSignal action) {
        if (!keeps_signals) set_signals(action);
        std::signal(SIGUSR1, action == RunContext::OnSignal::kStop ? request_regroup : SIG_IGN);
      };
    }
    context.products = options_.products;
    context.replay = options_.replay;
    if (auto step = leads ? simulated(config, data, plan, context.ranks_here) : std::nullopt) {
      context.expected = step->expected;
      context.simulated = std::move(step->timeline);
    }
    const int ranks = context.world ? context.world->size() : 1;
    observer_.placed(
        {launcher_, context.ranks.rank, ranks, context.ranks_here, context.rank_here, config.config.train});
    const RunResult result = run_training(config, model_, data, context, observer_);
    if (!options_.trace.empty()) {
      write_trace_file(options_.trace, *context.ranks.trace, plan.mesh, context.world);
      if (leads)
        observer_.note(
            fmt::format("trace    {}: open it in ui.perfetto.dev{}", options_.trace,
                        context.ranks.trace->full() ? "; it is full, and ends before the run does" : ""));
    }
    return exit_code(result.end);
  }

  static int exit_code(RunResult::End end) {
    if (end == RunResult::End::kStopped) comm::tell_launcher(comm::LastWords::Kind::order, "stopped");
    if (end == RunResult::End::kTimeIsUp) comm::tell_launcher(comm::LastWords::Kind::order, "the time is up");
    if (end == RunResult::End::kRegroup) comm::tell_launcher(comm::LastWords::Kind::again, "makes room");
    return exit_code_of(end);
  }

  const ResolvedConfig& config_;
  RunObserver& observer_;
  const JobOptions& options_;
  const ModelRecord model_;
  comm::Launcher launcher_ = comm::Launcher::none;
  std::string memory_;  // of the job, where this is one of its ranks
  std::optional<comm::StartedAgain> again_;
  std::string flight_;  // the file of lost ranks, where this is the launcher and some were lost
};

// Whether a failure is this rank's own, or what another rank's failure looks like from here.
comm::LastWords::Kind kind_of(const Error& error) {
  const auto* saved = dynamic_cast<const NotSaved*>(&error);
  const bool elsewhere = dynamic_cast<const comm::PeerError*>(&error) ||
                         (saved && saved->failed() == NotSaved::Where::kOnAnotherRank);
  return elsewhere ? comm::LastWords::Kind::echo : comm::LastWords::Kind::cause;
}

}  // namespace

int run_training(const ResolvedConfig& config, RunObserver& observer, const JobOptions& options) {
  return Job(config, observer, options).run();
}

int report_failure(std::string_view program, const Error& error) {
  // The text may quote a file that anybody wrote.
  const std::string line = fmt::format("{}: {}", program, printable(error.what()));
  if (!comm::tell_launcher(kind_of(error), line)) say(stderr, "{}\n", line);
  return kFailed;
}

}  // namespace trireme
