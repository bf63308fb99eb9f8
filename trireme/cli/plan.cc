// `trireme plan`: how a config's step is best spread over a cluster (planner/search.h), what it will take,
// and what it will cost.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/bench/step_setup.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/step_flags.h"
#include "trireme/cli/write_file.h"
#include "trireme/planner/check.h"
#include "trireme/planner/exchange_options.h"
#include "trireme/planner/report.h"
#include "trireme/planner/search.h"
#include "trireme/run/plan_formats.h"
#include "trireme/run/plan_subject.h"

namespace trireme::cli {
namespace {

using planner::Found;
using planner::SearchResult;

// A signal reaches a process, not an object.
std::atomic<bool> stop_search{false};

void request_stop_of_search(int signal) {
  stop_search.store(true);
  std::signal(signal, SIG_DFL);  // a second one ends the process at once
}

struct PlanFlags {
  bench::StepSource source;
  ClusterFlags cluster;
  std::string output, explain, baseline, space;
  double budget_tokens = 0, jitter = 0;
  std::string failures, devices = "all";
  bool sensitivity = false;
  int effort = planner::SearchOptions().effort;
  double seconds = planner::SearchOptions().seconds;
  int threads = planner::SearchOptions().threads;
  int check = 0;
  uint64_t seed = 1;
  std::string formats = "given", exchange = "given";
};

std::string duration(double seconds) {
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  return seconds < 7200 ? fmt::format("{:.3f} s", seconds) : fmt::format("{:.1f} h", seconds / 3600);
}

void plan_line(std::string_view name, const std::string& value) {
  fmt::print("  {:<18} {}\n", name, value);
}

std::string_view why_ended(SearchResult::End end) {
  switch (end) {
    case SearchResult::End::kProved:
      return "no other plan of the space is faster";
    case SearchResult::End::kUnlikely:
      return "by their estimates, corrected by what was simulated, the others are slower";
    case SearchResult::End::kEffort:
      return "--effort was spent";
    case SearchResult::End::kTime:
      return "time was up: --seconds gives it more";
    case SearchResult::End::kStopped:
      return "it was interrupted";
  }
  return "";
}

void print_budget(const planner::Budget& budget, double step_seconds) {
  if (budget.step_seconds > step_seconds)
    plan_line("with jitter", fmt::format("{} a step on average", duration(budget.step_seconds)));
  if (budget.goodput)
    plan_line(
        "failures",
        fmt::format("one in {:.1f} h; with a checkpoint every {:.1f} min, {:.2f} % of the time lasts as work",
                    budget.goodput->mtbf_seconds / 3600, budget.goodput->interval_seconds / 60,
                    100 * budget.goodput->share));
  plan_line("budget", fmt::format("{:.4g} device-hours ({:.3g} device-years), {:.4g} days",
                                  budget.device_hours, budget.device_hours / (24 * 365), budget.days));
  if (budget.kilowatt_hours > 0)
    plan_line("energy", fmt::format("{:.4g} kWh at most (devices alone)", budget.kilowatt_hours));
  if (budget.money > 0) plan_line("price", fmt::format("{:.4g}", budget.money));
}

void print_best(const SearchResult& result, const planner::Subject& subject, const Cluster& cluster,
                const PlanFlags& options, const planner::Conditions& conditions) {
  const Found& best = result.best();
  const planner::Figures figures = planner::figures_of(best, subject);
  const sim::RankReport& fullest = best.report.fullest();
  fmt::print("{}\n", to_string(best.choice));
  plan_line("step", duration(best.report.step_seconds));
  plan_line(subject.sample + "/s", fmt::format("{:.4g}", figures.samples_per_second));
  if (figures.model_utilisation > 0)
    plan_line("MFU, HFU", fmt::format("{:.1f}%, {:.1f}%", 100 * figures.model_utilisation,
                                      100 * figures.hardware_utilisation));
  plan_line("bubble", fmt::format("{:.1f}%", 100 * best.report.bubble));
  plan_line("memory",
            fmt::format("{} of {} on rank {}", format_bytes(fullest.memory.peak_bytes),
                        format_bytes(static_cast<size_t>(fullest.device->memory_bytes)), fullest.rank));
  plan_line("bound", result.least_seconds > 0
                         ? fmt::format("no plan of this space takes less than {}: within {:.1f}% of the best",
                                       duration(result.least_seconds), 100 * result.gap())
                         : "none: not all plans of this space were looked at");
  if (options.budget_tokens > 0)
    print_budget(planner::budget_of(best, subject, cluster, options.budget_tokens, conditions),
                 best.report.step_seconds);
  const std::string looked_at =
      result.estimated < result.choices ? fmt::format("{} of ", result.estimated) : "";
  plan_line("searched",
            fmt::format("{}{} plans; {} too large, {} refused, {} simulated; {}", looked_at, result.choices,
                        result.too_large, result.refused, result.simulated, why_ended(result.end)));
}

void print_others(const SearchResult& result) {
  constexpr size_t kShown = 5;
  const double best = result.best().report.step_seconds;
  for (size_t i = 1; i < std::min(result.fitting.size(), kShown + 1); ++i) {
    const Found& other = result.fitting[i];
    fmt::print("{}  {:>+6.1f}%  {}\n", i == 1 ? "\nnext\n" : "", 100 * (other.report.step_seconds / best - 1),
               to_string(other.choice));
  }
}

void print_sensitivity(const Found& best, const planner::Subject& subject, const Cluster& cluster) {
  fmt::print("\nwere it worse, this plan's step would take\n");
  for (const planner::Sensitivity& one : planner::sensitivity_of(best, subject, cluster))
    fmt::print("  {:>+6.1f}%  {}\n", 100 * (one.seconds / best.report.step_seconds - 1), one.what);
}

// The best of a part of the space beside the best of all of it.
void print_part(const planner::Subject& subject, const Cluster& cluster, const SearchResult& whole,
                planner::SearchOptions search_options, const std::string& what) {
  fmt::print("\n{}\n", what);
  try {
    const SearchResult part = planner::search(subject, cluster, search_options);
    const Found &best = whole.best(), &other = part.best();
    fmt::print("  {:>+6.1f}%  {}: {}\n", 100 * (other.report.step_seconds / best.report.step_seconds - 1),
               duration(other.report.step_seconds), to_string(other.choice));
    for (const planner::Difference& where : planner::differences(best, other))
      fmt::print("  {:>+10.3f} s a rank on average: {}\n", where.seconds, where.what);
  } catch (const Error& error) {
    fmt::print("  {}\n", printable(error.what()));
  }
}

// One line that is written again and again, on a terminal alone.
void show_search(const planner::SearchProgress& progress) {
  const std::string found =
      progress.best_seconds > 0 ? ", best " + duration(progress.best_seconds) : std::string();
  fmt::print(stderr, "\r\033[Ksearching: {} of {} plans estimated, {} of {} simulations{}",
             progress.estimated, progress.choices, progress.simulated, progress.effort, found);
  std::fflush(stderr);
}
void clear_line() {
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
}

// Random plans against their bounds, and against the plan that was found.
int print_check(const planner::CheckReport& report, const SearchResult& result) {
  fmt::print("\ncheck of {} random plans\n", report.simulated);
  plan_line("refused", std::to_string(report.refused));
  plan_line("too large", std::to_string(report.too_large));
  plan_line("estimates", fmt::format("of what was simulated: {:.2f} to {:.2f} times, {:.2f} in the median",
                                     report.least_ratio, report.largest_ratio, report.median_ratio));
  plan_line("bounds", fmt::format("{} broken; in the median {:.0f}% of the step", report.broken.size(),
                                  100 * report.median_tightness));
  for (const planner::BrokenBound& broken : report.broken)
    fmt::print("  {} {:.6g} is less than the bound of {:.6g}: {}\n    {}\n", broken.of, broken.simulated,
               broken.bound, to_string(broken.choice), to_json(broken.plan));
  if (report.fastest)
    plan_line("the fastest",
              fmt::format("{}, {:+.1f}% of the plan above: {}", duration(report.fastest->report.step_seconds),
                          100 * (report.fastest->report.step_seconds / result.best().report.step_seconds - 1),
                          to_string(report.fastest->choice)));
  return report.broken.empty() ? kOk : kFailed;
}

// What other formats of weights and gradients would make of the step.
void print_formats(const bench::StepSetup& setup, const Cluster& cluster, planner::SearchOptions search,
                   double seconds_here) {
  std::vector<NumberFormats> others = number_formats(setup.config);
  others.erase(others.begin());
  if (others.empty()) {
    fmt::print("\nformats: with train.precision=f32 weights and gradients have no other\n");
    return;
  }
  search.wish = {};
  fmt::print("\nother formats of weights and gradients\n");
  for (const FormatResult& one : search_formats(setup.config, setup.shape.sample, cluster, others, search)) {
    if (!one.result) {
      fmt::print("  {}: {}\n", to_string(one.formats), printable(one.why));
      continue;
    }
    const Found& best = one.result->best();
    const std::string change =
        seconds_here > 0 ? fmt::format(" ({:+.1f}%)", 100 * (best.report.step_seconds / seconds_here - 1))
                         : "";
    fmt::print("  {}: {}{}: {}\n", to_string(one.formats), duration(best.report.step_seconds), change,
               to_string(best.choice));
  }
}

// Every method of exchange in the place of dense sums, and what these wait for.
void print_exchange(const Found& best, const planner::Subject& subject, const Cluster& cluster) {
  if (best.choice.data == 1) {
    fmt::print("\nthe plan has one replica, so that there is nothing to agree on\n");
    return;
  }
  const planner::ExchangeAnswer answer = planner::exchange_options(best, subject, cluster);
  const double dense = answer.dense().step_seconds;
  fmt::print("\nother ways for replicas to agree, with their default settings\n");
  for (const planner::ExchangeOption& option : answer.options) {
    if (option.refused.empty())
      fmt::print("  {:>+6.1f}%  {:<16} {}, {} sent\n", 100 * (option.step_seconds / dense - 1), option.method,
                 duration(option.step_seconds), format_bytes(static_cast<size_t>(option.bytes_sent)));
    else
      fmt::print("  refused  {:<16} {}\n", option.method, printable(option.refused));
  }
  const bool rate = answer.rate_seconds >= answer.latency_seconds;
  plan_line("decides",
            fmt::format("{}: with links of endless rate the step is {:.1f}% shorter, without latency {:.1f}%",
                        std::max(answer.rate_seconds, answer.latency_seconds) < 0.01 * dense
                            ? "neither rate nor latency"
                        : rate ? "bandwidth"
                               : "latency",
                        100 * answer.rate_seconds / dense, 100 * answer.latency_seconds / dense));
}

// Every plan that may fit, for trying them all.
int write_space(const planner::Subject& subject, const Cluster& cluster,
                const planner::SearchOptions& options, const std::string& path) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const planner::Candidate& one : planner::candidates(subject, cluster, options))
    list.push_back(
        {{"choice", to_string(one.choice)},
         {"estimated_seconds", one.estimate.seconds},
         {"least_seconds", one.estimate.least_seconds},
         {"estimated_bytes", one.estimate.bytes},
         {"plan", nlohmann::ordered_json::parse(to_json(plan_of(one.choice, one.estimate.begins)))}});
  write_json(path, list);
  fmt::print("{} plans, by their estimates, in {}\n", list.size(), path);
  return kOk;
}

// Without waiting for simulations whose results nobody wants any more.
[[noreturn]] void end_at_once(int code) {
  std::fflush(nullptr);
  std::_Exit(code);
}

// Where nothing fits: whether it would with weights and gradients in fewer bits.
SearchResult found_or_hint(const bench::StepSetup& setup, const planner::Subject& subject,
                           const Cluster& cluster, const planner::SearchOptions& options) {
  try {
    return planner::search(subject, cluster, options);
  } catch (const planner::Interrupted&) {
    throw;
  } catch (const Error& error) {
    std::vector<NumberFormats> others = number_formats(setup.config);
    others.erase(others.begin());
    const std::vector<FormatResult> results =
        search_formats(setup.config, setup.shape.sample, cluster, others, options);
    const FormatResult* const best = fastest(results);
    if (!best) throw;
    throw_error("{}. It fits with {}: {} a step", error.what(), to_string(best->formats),
                duration(best->result->best().report.step_seconds));
  }
}

int run(const PlanFlags& options) {
  const planner::Wish explained =
      options.explain.empty() ? planner::Wish() : planner::parse_wish(options.explain);
  planner::Conditions conditions{.jitter = options.jitter};
  if (!options.failures.empty()) conditions.failures = sim::parse_failures(options.failures);
  const bench::StepSetup setup = bench::set_up_step(options.source);
  const Cluster cluster =
      setup.config.train.tf32 ? with_tf32(options.cluster.read()) : options.cluster.read();
  // Before the search, which may take minutes.
  if (options.jitter > 0 && cluster.device_count() > planner::kMostUnequalRanks)
    throw_error("--jitter is simulated rank by rank, on up to {} of them; the cluster has {} devices",
                planner::kMostUnequalRanks, cluster.device_count());
  const planner::Subject subject = plan_subject(setup.config, setup.shape.sample);
  const planner::Wish baseline = planner::baseline(options.baseline, subject, cluster);
  planner::SearchOptions search{
      .devices = options.devices == "any" ? planner::Devices::kAny : planner::Devices::kAll,
      .effort = options.effort,
      .seconds = options.seconds,
      .threads = options.threads,
      .stop = &stop_search};
  const bool shows_progress = isatty(STDERR_FILENO) != 0;
  if (shows_progress) search.progress = show_search;
  std::signal(SIGINT, request_stop_of_search);
  fmt::print("{}: {}, batch {} of {} on {} devices of {}\n", setup.name, setup.config.model.family,
             setup.config.train.batch, to_string(setup.shape.sample), cluster.device_count(), cluster.name);
  if (!options.space.empty()) {
    search.wish = explained;
    return write_space(subject, cluster, search, options.space);
  }
  const SearchResult result = found_or_hint(setup, subject, cluster, search);
  if (shows_progress) clear_line();
  print_best(result, subject, cluster, options, conditions);
  print_others(result);
  if (options.formats == "any") print_formats(setup, cluster, search, result.best().report.step_seconds);
  if (options.exchange == "any") print_exchange(result.best(), subject, cluster);
  if (options.sensitivity) print_sensitivity(result.best(), subject, cluster);
  for (const auto& [wish, what] : {std::pair(explained, "with " + options.explain),
                                   std::pair(baseline, "baseline " + options.baseline)}) {
    if (wish.empty()) continue;
    search.wish = wish;
    print_part(subject, cluster, result, search, what);
  }
  if (!options.output.empty()) {
    write_file(options.output, to_json(result.best().plan), "plan");
    fmt::print("\nplan     {}: trireme train --plan {} runs it\n", options.output, options.output);
  }
  int code = result.end == SearchResult::End::kStopped ? kInterrupted : kOk;
  if (options.check > 0 && code == kOk)
    code = print_check(planner::check_plans(subject, cluster,
                                            {.devices = search.devices,
                                             .plans = options.check,
                                             .seed = options.seed,
                                             .threads = options.threads,
                                             .stop = &stop_search}),
                       result);
  if (result.unfinished) end_at_once(code);
  return code;
}

}  // namespace

int plan(std::span<const std::string> arguments) {
  if (asks_for_fit(arguments)) return plan_fit(arguments);
  const SplitArguments split = split_settings(arguments);
  PlanFlags options;
  options.source.settings = split.settings;
  CLI::App app(
      fmt::format(
          "Searches for the fastest plan of a training step on a cluster that need not be here.\n"
          "With --fit: which techniques fit the memory of which devices instead; see trireme plan --fit "
          "--help.\n"
          "Ctrl-C ends the search, prints the best plan so far and its bound, and exits with code {}.",
          static_cast<int>(kInterrupted)),
      "trireme plan");
  add_step_flags(app, options.source);
  add_cluster_flags(app, options.cluster);
  app.add_option("-o,--output", options.output, "write the plan to this file")->type_name("FILE");
  app.add_option("--explain", options.explain,
                 "show the best plan with these choices, e.g. tensor=8,pipe=4, and why it was not chosen");
  CLI::Option* const budget = app.add_option("--budget-tokens", options.budget_tokens,
                                             "show the cost of training on this many tokens, e.g. 300e9");
  budget->check(CLI::PositiveNumber);
  app.add_option("--failures", options.failures,
                 "count lost work in --budget-tokens if devices fail: "
                 "mtbf=50000h,checkpoint=30s,detect=10s,restart=5min")
      ->needs(budget);
  app.add_option(
         "--jitter", options.jitter,
         "count waiting for slow devices in --budget-tokens (up to 64 ranks): the standard deviation of "
         "the logarithm of compute time, e.g. 0.1")
      ->check(CLI::Range(0.0, 3.0))
      ->needs(budget);
  app.add_option(
         "--devices", options.devices,
         "any: also search plans that use only some of the devices (a half, a quarter, …, powers of two)")
      ->check(CLI::IsMember({"all", "any"}));
  app.add_flag("--sensitivity", options.sensitivity,
               "also show how the step time changes if a link or a device is slower");
  app.add_option(
         "--baseline", options.baseline,
         "compare with the best plan of a restricted search: intra (no pipeline), inter (no tensor axis), "
         "manual (tensor within a host, 1f1b, no ZeRO)")
      ->check(CLI::IsMember({"manual", "intra", "inter"}));
  app.add_option("--space", options.space,
                 "write all plans that may fit, with estimates, to this file instead of searching; --explain "
                 "restricts them")
      ->type_name("FILE");
  app.add_option("--formats", options.formats,
                 "any: also search over number formats of weights and gradients")
      ->check(CLI::IsMember({"given", "any"}));
  app.add_option(
         "--exchange", options.exchange,
         "any: also time the plan with every exchange method, and show whether bandwidth or latency is the "
         "limit")
      ->check(CLI::IsMember({"given", "any"}));
  app.add_option("--effort", options.effort,
                 "simulate at most this many plans; the same effort gives the same plan on any machine")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  app.add_option(
         "--check", options.check,
         "check the planner: also simulate this many random plans; none may beat its bounds on time and "
         "memory, and none should be faster than the plan found")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--seed", options.seed, "seed of the random plans of --check")->capture_default_str();
  app.add_option("--seconds", options.seconds,
                 "stop searching after this many seconds and print the best plan so far")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "number of plans to simulate at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  if (const auto code = parse_arguments(app, split)) return *code;
  try {
    return run(options);
  } catch (const planner::Interrupted& interrupted) {
    fmt::print(stderr, "{}error: {}\n", isatty(STDERR_FILENO) ? "\r\033[K" : "",
               printable(interrupted.what()));
    end_at_once(kInterrupted);
  }
}

}  // namespace trireme::cli
