// `trireme verify [config.toml] --plan PLAN [--steps K] [--section.key=value…]`: a plan, its ranks as
// threads, against one rank. `trireme verify --table FILE`: the table of docs/parity.md. `trireme verify
// --sweep SECONDS`: random cases.
#include "trireme/train/parity/verify.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/input_file.h"
#include "trireme/base/text.h"
#include "trireme/bench/step_setup.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/parity_table.h"
#include "trireme/cli/step_flags.h"
#include "trireme/cli/sweep_report.h"
#include "trireme/cli/write_file.h"
#include "trireme/data/loader.h"
#include "trireme/optim/lr_schedule.h"
#include "trireme/run/config.h"
#include "trireme/run/loop.h"
#include "trireme/run/plan_settings.h"
#include "trireme/run/random_case.h"

namespace trireme::cli {
namespace {

constexpr std::string_view kMark = "<!-- made by `trireme verify --table FILE`; do not edit below -->\n";

std::string read_text(const std::string& path) {
  constexpr size_t kMostPageBytes = size_t{1} << 24;
  return read_input_file(path, kMostPageBytes, "a page with a table of `trireme verify --table`");
}

// A file says how many ranks it is for, and so does its content on the command line.
Plan plan_of(const std::string& text, int ranks) {
  const bool says = text.starts_with('{') || std::filesystem::is_regular_file(text);
  return read_plan(text, ranks == 0 && !says ? 2 : ranks);
}

// The first batches that training would see.
parity::Training training_of(const Config& config, int64_t steps) {
  const OpenedData data = open_run_data(config, default_text());
  parity::Training training{
      complete_model(find_model(config.model), config, data), config.train, config.optim,
      {config.train.batch / config.train.accumulate, data.input},    {},           {}};
  Loader loader(data.train, {.batch = config.train.batch, .seed = static_cast<uint64_t>(config.train.seed)});
  for (int64_t step = 0; step < steps; ++step) {
    training.batches.push_back(loader.next());
    training.rates.push_back(
        learning_rate(config.optim, config.lr_schedule, config.train.batch, config.train.steps, step));
  }
  return training;
}

int verify_training(parity::Training training, const Plan& plan) {
  fmt::print("model    {}, {}\n", training.model.record.family, training.train.precision);
  parity::Reference reference(std::move(training));
  fmt::print("plan     {} on the mesh {}: {} ranks as threads, against one\n", plan.preset,
             to_string(plan.mesh), plan.mesh.ranks());
  std::fflush(stdout);
  const parity::Result result = parity::verify(reference, plan);
  if (result.verdict == parity::Verdict::kRefused) throw_error("the plan is refused: {}", result.reason);
  for (size_t i = 0; i < result.losses.size(); ++i)
    fmt::print("step {}   loss {:.7g}, one rank {:.7g}\n", i + 1, result.losses[i].plan,
               result.losses[i].one_rank);
  fmt::print("verdict  {}", parity::name(result.verdict));
  if (result.verdict == parity::Verdict::kEqual) fmt::print(": all bits of {} tensors", result.tensors);
  if (result.verdict == parity::Verdict::kRounding)
    fmt::print(": of {} tensors the worst is {}, off by {:.2g} of what rounding may do", result.tensors,
               result.worst_tensor, result.worst);
  if (result.verdict == parity::Verdict::kBug) fmt::print(": {}", result.reason);
  fmt::print("\n");
  return result.verdict == parity::Verdict::kBug ? kDiffers : kOk;
}

// "model.family=gpt" from "--model.family=gpt" or "--model.family", "gpt".
std::map<std::string, std::string, std::less<>> fixed_settings(const std::vector<std::string>& settings) {
  std::map<std::string, std::string, std::less<>> fixed;
  for (size_t i = 0; i < settings.size(); ++i) {
    const std::string text = settings[i].substr(settings[i].find_first_not_of('-'));
    const size_t equals = text.find('=');
    if (equals != text.npos) {
      fixed[text.substr(0, equals)] = text.substr(equals + 1);
    } else if (i + 1 < settings.size()) {
      fixed[text] = settings[++i];
    }
  }
  return fixed;
}

int run_sweep(const parity::SweepOptions& options) {
  SweepReport report;
  parity::sweep(options, [&](const parity::SweepResult& result) {
    report.add(result);
    if (!parity::is_failure(result.outcome)) return;
    fmt::print(stderr, "{}", failure_text(result));
    std::fflush(stderr);
  });
  fmt::print("{}", report.text());
  return report.has_failures() ? kDiffers : kOk;
}

// In Markdown; `bugs` is set where there is one.
std::string filled(const ParityTable& table, const std::string& filter, bool& bugs) {
  std::vector<ParityCell> cells;
  fill(table, filter, [&](const ParityCell& cell) {
    cells.push_back(cell);
    const ParityColumn& column = table.columns[cell.column];
    bugs |= cell.result.verdict == parity::Verdict::kBug;
    fmt::print(stderr, "{} | {} | {} ×{} {}: {} {:.2f} {}\n", table.models[cell.model].name,
               table.plans[cell.plan].name, column.precision, column.accumulate, column.optimizer,
               parity::name(cell.result.verdict), cell.result.worst,
               cell.result.reason.empty() ? cell.result.worst_tensor : cell.result.reason);
  });
  return to_markdown(table, cells);
}

int make_table(const std::string& path, const std::string& filter) {
  const std::string before = path == "-" ? "" : read_text(path);
  const size_t mark = before.find(kMark);
  if (path != "-" && mark == before.npos)
    throw_error("{} has no line\n{}after which the table would be put", path, kMark);
  bool bugs = false;
  const std::string layouts = filled(layout_table(), filter, bugs);
  const std::string text =
      fmt::format("{}\n## Pipelines\n\n{}", layouts, filled(pipeline_table(), filter, bugs));
  if (path == "-")
    fmt::print("{}", text);
  else
    write_file(path, fmt::format("{}{}\n{}", before.substr(0, mark), kMark, text), "table");
  return bugs ? kDiffers : kOk;
}

}  // namespace

int verify(std::span<const std::string> arguments) {
  const SplitArguments split = split_settings(arguments);
  CLI::App app(
      fmt::format(
          "Runs a plan, its ranks as threads, and one rank side by side on the same data, and says whether "
          "they agree: equal\n"
          "(in all bits), rounding, or bug, with the first tensor that is off and exit code {}. See "
          "docs/parity.md.",
          static_cast<int>(kDiffers)),
      "trireme verify");
  std::string path, plan, table, filter;
  int ranks = 0;
  int64_t steps = 3;
  app.add_option("config", path, "a TOML file");
  CLI::Option* plan_option = add_plan_flag(app, plan);
  app.add_option("-n,--ranks", ranks, "number of ranks, for presets; default 2")
      ->type_name("RANKS")
      ->check(CLI::Range(1, 64));
  app.add_option("--steps", steps, "number of steps to compare")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  CLI::Option* table_option =
      app.add_option("--table", table,
                     "write the table of docs/parity.md into FILE, below its marker; - prints it")
          ->type_name("FILE");
  app.add_option("--filter", filter, "with --table: only rows whose \"MODEL PLAN\" contains this text")
      ->needs(table_option)
      ->type_name("TEXT");
  plan_option->excludes(table_option);
  bool random = false;
  std::string image;
  parity::SweepOptions sweep;
  CLI::Option* random_option =
      app.add_flag("--random", random, "use random tokens or images; some targets are ignored");
  app.add_option("--image", image, "CHANNELSxHEIGHTxWIDTH of random images")->needs(random_option);
  CLI::Option* sweep_option =
      app.add_option(
             "--sweep", sweep.seconds,
             "verify random models, settings and plans for this many seconds, each in its own process; "
             "settings that you give are kept")
          ->type_name("SECONDS")
          ->excludes(plan_option)
          ->excludes(table_option)
          ->check(CLI::NonNegativeNumber);
  app.add_option("--seed", sweep.seed, "seed of the sweep")->needs(sweep_option)->capture_default_str();
  app.add_option("--cases", sweep.most_cases, "most cases of the sweep")->needs(sweep_option);
  app.add_option("--max-ranks", sweep.ranges.max_ranks, "most ranks of the sweep's meshes")
      ->needs(sweep_option)
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_option("--max-layers", sweep.ranges.max_layers, "most layers of the sweep's models")
      ->needs(sweep_option)
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  app.add_option("--case-seconds", sweep.case_seconds, "a case of the sweep that takes longer counts as hung")
      ->needs(sweep_option)
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  if (const auto code = parse_arguments(app, split)) return *code;
  if (!table.empty()) return make_table(table, filter);
  if (*sweep_option) {
    sweep.ranges.fixed = fixed_settings(split.settings);
    return run_sweep(sweep);
  }
  if (plan.empty()) throw_error("which plan? Say --plan FILE or --plan {}", join(preset_plans(), "|"));

  ConfigSources sources{.environment = process_environment(), .command_line = split.settings};
  if (!path.empty()) sources.file = read_config_file(path);
  if (random) sources.command_line.insert(sources.command_line.begin(), "data.path=none");
  ResolvedConfig config = resolve_config(sources);
  const Plan spread = plan_of(plan, ranks);
  apply_plan(spread, config);
  if (!random) return verify_training(training_of(config.config, steps), spread);
  const bench::StepSetup setup = bench::set_up_step(config.config, "random", image);
  return verify_training(parity::random_training(setup.config, setup.shape.sample, steps), spread);
}

}  // namespace trireme::cli
