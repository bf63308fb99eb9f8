// `trireme bench collectives`: every collective is first checked on all ranks, then timed over sizes and
// algorithms, and set beside what the measured links predict.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/machine.h"
#include "trireme/base/text.h"
#include "trireme/bench/collective_timing.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/collective_chart.h"
#include "trireme/cli/command.h"
#include "trireme/cli/launch_flags.h"
#include "trireme/cli/write_file.h"
#include "trireme/comm/calibrate.h"
#include "trireme/comm/collective/algorithms.h"

namespace trireme::cli {
namespace {

using comm::Algorithm;
using comm::Collective;
using Json = nlohmann::ordered_json;

struct CollectivesOptions {
  comm::LaunchOptions launch;
  std::string collective = "all_reduce";
  std::string algorithms = "all";
  std::string sizes = "8-64M";
  std::string dtype = "f32";
  std::string memory = "shared";
  std::string segment;  // chosen, if empty
  double seconds = 0.1;
  std::string json, svg;
  std::string calibrate;  // written
  std::string links;      // read
};

// The value with this name; names(i) is that of value i.
template <typename T>
T find_name(const std::string& what, const std::string& text, const std::vector<T>& values) {
  std::vector<std::string> names;
  for (const T value : values) {
    names.emplace_back(name(value));
    if (names.back() == text) return value;
  }
  const std::string guess = nearest(text, names);
  throw_error("there is no {} '{}'{}; known are {}", what, text,
              guess.empty() ? "" : fmt::format("; did you mean '{}'?", guess), join(names, ", "));
}

std::vector<Collective> all_collectives() {
  std::vector<Collective> all;
  for (int c = 0; c < static_cast<int>(Collective::message); ++c) all.push_back(static_cast<Collective>(c));
  return all;
}

comm::MemoryKind parse_memory(const std::string& text) {
  if (text == "shared") return comm::MemoryKind::transport;
  if (text == "ordinary") return comm::MemoryKind::ordinary;
  const std::string guess = nearest(text, std::vector<std::string>{"shared", "ordinary"});
  throw_error("there is no memory '{}'{}; known are shared (the transport's own) and ordinary", text,
              guess.empty() ? "" : fmt::format("; did you mean '{}'?", guess));
}

// Empty: all that make sense.
std::vector<Algorithm> parse_algorithms(const std::string& text, Collective collective) {
  if (text == "all") return {};
  std::vector<Algorithm> known{Algorithm::automatic, Algorithm::native};
  for (const Algorithm algorithm : comm::algorithms_of(collective)) known.push_back(algorithm);
  std::vector<Algorithm> algorithms;
  for (const std::string& part : split(text, ',')) {
    algorithms.push_back(find_name(fmt::format("algorithm of {}", name(collective)), part, known));
  }
  return algorithms;
}

bench::CollectiveQuestion question_of(const CollectivesOptions& options) {
  bench::CollectiveQuestion question;
  question.collective = find_name("collective", options.collective, all_collectives());
  question.dtype = find_name(
      "dtype", options.dtype,
      std::vector<DType>{DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8});
  question.memory = parse_memory(options.memory);
  question.algorithms = parse_algorithms(options.algorithms, question.collective);
  question.sizes = parse_sizes(options.sizes);
  if (question.collective == Collective::barrier) question.sizes = {1};
  if (!options.segment.empty()) question.segment_bytes = parse_sizes(options.segment).front();
  question.seconds = options.seconds;
  return question;
}

// None where there is no file yet.
std::vector<comm::LinkTable> tables_in(const std::string& path) {
  return std::filesystem::exists(path) ? comm::read_link_tables(path) : std::vector<comm::LinkTable>();
}

// Replaces what the file has of the same transport, memory and number of ranks.
void write_links(const std::string& path, const comm::LinkTable& table) {
  std::vector<comm::LinkTable> tables = tables_in(path);
  std::erase_if(tables, [&](const comm::LinkTable& old) {
    return old.transport == table.transport && old.memory == table.memory && old.ranks == table.ranks;
  });
  tables.push_back(table);
  comm::write_link_tables(path, tables);
}

comm::LinkTable links_of(comm::Context& context, const CollectivesOptions& options,
                         const bench::CollectiveQuestion& question) {
  if (!options.links.empty()) return comm::read_links(context, options.links, question.memory);
  const bool full = !options.calibrate.empty();
  comm::CalibrationOptions how{.thoroughness = full ? comm::Thoroughness::full : comm::Thoroughness::probe,
                               .memory = question.memory};
  if (options.calibrate.empty()) how.collective = question.collective;
  const comm::LinkTable table = comm::measure_links(context, how);
  if (!options.calibrate.empty() && context.rank() == 0) {
    write_links(options.calibrate, table);
    fmt::print("links of {} with {} ranks written to {}\n", table.transport, table.ranks, options.calibrate);
  }
  return table;
}

// Two levels are what one host does not have; the transport's own way is what not every transport has.
std::vector<Algorithm> sensible_algorithms(Collective collective, comm::Context& context,
                                           const comm::LinkTable& links) {
  std::vector<Algorithm> algorithms{Algorithm::automatic};
  if (collective == Collective::barrier) return algorithms;
  if (comm::timed_curve(links, collective, Algorithm::native) != nullptr)
    algorithms.push_back(Algorithm::native);
  const std::vector<Algorithm> others = comm::algorithms_for(collective, context.hosts());
  algorithms.insert(algorithms.end(), others.begin(), others.end());
  return algorithms;
}

std::string algorithm_text(const bench::CollectiveTime& time) {
  if (time.asked == time.ran) return std::string(name(time.ran));
  return fmt::format("{} ({})", name(time.asked), name(time.ran));
}

void print_time(const bench::CollectiveTime& time) {
  fmt::print("{:>10} {:<36} {:>11.2f} {:>11.2f} {:>9.3f} {:>12.2f} {:>9.2f}\n", time.bytes,
             algorithm_text(time), time.median_seconds * 1e6, time.p90_seconds * 1e6,
             time.bus_bytes_per_second / 1e9, time.predicted_seconds * 1e6,
             time.predicted_seconds / time.median_seconds);
  std::fflush(stdout);
}

Json json_of(const std::vector<bench::CollectiveTime>& times, const bench::CollectiveQuestion& question,
             comm::Context& context) {
  Json list = Json::array();
  for (const bench::CollectiveTime& time : times) {
    list.push_back({{"benchmark", "collective"},
                    {"collective", name(question.collective)},
                    {"bytes", time.bytes},
                    {"ranks", context.ranks()},
                    {"transport", context.transport().name()},
                    {"algorithm", name(time.asked)},
                    {"ran", name(time.ran)},
                    {"segment_bytes", time.segment_bytes},
                    {"dtype", name(question.dtype)},
                    {"memory", question.memory == comm::MemoryKind::transport ? "shared" : "ordinary"},
                    {"repetitions", time.repetitions},
                    {"median_seconds", time.median_seconds},
                    {"p90_seconds", time.p90_seconds},
                    {"min_seconds", time.min_seconds},
                    {"turn_seconds", time.turns},
                    {"predicted_seconds", time.predicted_seconds},
                    {"predicted_ratio", time.predicted_seconds / time.median_seconds},
                    {"bus_bytes_per_second", time.bus_bytes_per_second},
                    {"cpu", cpu_model()},
                    {"cores", host_core_count()}});
  }
  return list;
}

void print_heading(const CollectivesOptions& options, const bench::CollectiveQuestion& question) {
  fmt::print("{} of {}, {} memory; {} with {} cores; each time is that of the slowest rank\n\n",
             name(question.collective), name(question.dtype), options.memory, cpu_model(), host_core_count());
  fmt::print("{:>10} {:<36} {:>11} {:>11} {:>9} {:>12} {:>9}\n", "bytes", "algorithm", "median µs", "p90 µs",
             "bus GB/s", "predicted µs", "/measured");
}

std::vector<bench::CollectiveTime> measure(comm::Context& context, const CollectivesOptions& options,
                                           bench::CollectiveQuestion question) {
  const bool speaks = context.rank() == 0;
  const auto print = [&](const bench::CollectiveTime& time) {
    if (speaks) print_time(time);
  };
  const comm::LinkTable links = links_of(context, options, question);
  context.set_links(links);
  comm::Group world = context.world();
  if (question.algorithms.empty())
    question.algorithms = sensible_algorithms(question.collective, context, links);
  if (speaks) print_heading(options, question);
  return bench::time_collective(context, world, question, print);
}

void run_rank(comm::Context& context, const CollectivesOptions& options,
              const bench::CollectiveQuestion& question) {
  const std::vector<bench::CollectiveTime> times = measure(context, options, question);
  if (context.rank() != 0) return;
  if (const std::string text = bench::choice_text(times); !text.empty()) fmt::print("\n{}", text);
  if (!options.json.empty()) write_json(options.json, json_of(times, question, context));
  if (!options.svg.empty()) {
    const std::string title =
        fmt::format("{} of {}, {} ranks, {} ({} memory)", name(question.collective), name(question.dtype),
                    context.ranks(), context.transport().name(), options.memory);
    write_collective_chart(options.svg, title, fmt::format("{}, {} cores", cpu_model(), host_core_count()),
                           times);
  }
}

int run(CollectivesOptions options) {
  const bench::CollectiveQuestion question = question_of(options);
  if (!options.calibrate.empty()) tables_in(options.calibrate);  // what is no such file is not written over
  if (options.launch.transport == "inproc") {
    comm::run_rank_threads(
        std::max(options.launch.ranks, 2),
        [&](comm::Context& context) { run_rank(context, options, question); },
        options.launch.timeout_seconds);
    return kOk;
  }
  return comm::run_launched(options.launch, [&](comm::Context& context) {
    run_rank(context, options, question);
    return static_cast<int>(kOk);
  });
}

}  // namespace

int bench_collectives(std::span<const std::string> arguments) {
  CollectivesOptions options;
  CLI::App app("Checks collectives on all ranks, then times them beside what the measured links predict.",
               "trireme bench collectives");
  add_launch_flags(app, options.launch);
  app.get_option("--transport")->description("shm, tcp, mpi, or inproc (ranks are threads)");
  app.add_option("--collective", options.collective, "all_reduce, broadcast, …")->capture_default_str();
  app.add_option("--algorithm", options.algorithms,
                 "several with commas; automatic, native, ring, tree, …, or all")
      ->capture_default_str();
  app.add_option("--sizes", options.sizes, "bytes: 8,1K,64M; 8-64M are powers of four")
      ->capture_default_str();
  app.add_option("--dtype", options.dtype, "f64, f32, f16, bf16, i64, i32 or u8")->capture_default_str();
  app.add_option("--memory", options.memory, "shared (memory of the transport) or ordinary")
      ->capture_default_str();
  app.add_option("--segment", options.segment, "segment size in bytes; default: chosen automatically");
  app.add_option("--seconds", options.seconds, "seconds of timing for each size and algorithm")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--json", options.json, "write the results to this file");
  app.add_option("--svg", options.svg, "draw time against size to this file");
  auto* calibrate =
      app.add_option("--calibrate", options.calibrate,
                     "time collectives thoroughly first (under 20 s), and write the table to this file");
  app.add_option("--links", options.links, "use the links that --calibrate wrote; else a quick probe")
      ->excludes(calibrate);
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;
  return run(std::move(options));
}

}  // namespace trireme::cli
