// Finds who stands for whom, runs the clock, adds up.
#include "trireme/sim/simulate.h"

#include <algorithm>
#include <memory>
#include <set>

#include "trireme/base/error.h"
#include "trireme/passes/served_steps.h"

namespace trireme::sim {
namespace {

// Whether all ranks of its stage have parts of the same size: of states, and of the batch.
bool is_even(const Program& program) {
  for (const State& state : program.states) {
    int64_t ways = 1;
    for (const std::string& axis : state.part.axes) ways *= program.mesh.axes()[program.mesh.axis(axis)].size;
    if (state.type.shape.elements() * ways != state.part.whole.elements()) return false;
  }
  return true;
}

// The first and the last of a stage's ranks have its largest and its smallest parts.
std::vector<std::pair<int, int>> ends_of_stages(const Mesh& mesh) {
  const int pipe = mesh.find(kPipeAxis);
  std::vector<std::pair<int, int>> ends(pipe < 0 ? 1 : mesh.axes()[pipe].size, {-1, -1});
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    auto& [first, last] = ends[pipe < 0 ? 0 : mesh.coordinate(rank, pipe)];
    if (first < 0) first = rank;
    last = rank;
  }
  return ends;
}

// Steps of an asynchronous pipeline overlap: one of them is what those after the first few take, on average.
constexpr int kFirstSteps = 4, kMoreSteps = 8;
// Ranks that are all simulated where their parts have different sizes.
constexpr int kMostUneven = 256;

struct Simulated {
  std::unique_ptr<Track> track;
  std::unique_ptr<Track> first_steps;  // of an asynchronous pipeline, to be taken off
  RankReport report;
  int64_t parameters = 0;
};

Simulated make(const Program& program, const DeviceMap& device_map, int rank, int stands_for) {
  if (program.segment(kGiveSegment) >= 0 || program.segment(kPullSegment) >= 0)
    throw_error(
        "the plan has a server, which takes gradients in the order in which they come: a clock that runs one "
        "step can not time that. Simulate the plan without the key exchange, or run it (--link, --slow)");
  const DeviceClass& device = device_map.device(rank);
  const bool overlap = is_asynchronous(program);
  return {std::make_unique<Track>(track_of(program, device, overlap ? kFirstSteps + kMoreSteps : 1)),
          overlap ? std::make_unique<Track>(track_of(program, device, kFirstSteps)) : nullptr,
          {.rank = rank, .stands_for = stands_for, .device = {}, .memory = memory_of(program), .time = {}},
          program.parameters};
}

// What one of `steps` takes that were made after others.
RankTime step_after(RankTime all, const RankTime& first, int steps) {
  const auto take = [&](double& of_all, double of_first) { of_all = (of_all - of_first) / steps; };
  take(all.end_seconds, first.end_seconds);
  take(all.work_seconds, first.work_seconds);
  take(all.bubble_seconds, first.bubble_seconds);
  take(all.offload_seconds, first.offload_seconds);
  take(all.flops, first.flops);
  take(all.bytes_sent, first.bytes_sent);
  take(all.offload_bytes, first.offload_bytes);
  for (size_t i = 0; i < all.exposed_seconds.size(); ++i)
    take(all.exposed_seconds[i], first.exposed_seconds[i]);
  for (size_t i = 0; i < all.bytes.size(); ++i) take(all.bytes[i], first.bytes[i]);
  return all;
}

// One of each stage; nothing where ranks differ, unless they are too many to look at all, and differ in the
// sizes of their parts alone: then the first, whose parts are the largest.
std::vector<Simulated> representatives(const DeviceMap& device_map, const ProgramSource& programs) {
  if (!device_map.is_symmetric()) return {};
  const bool many = device_map.mesh().ranks() > kMostUneven;
  const std::vector<std::pair<int, int>> ends = ends_of_stages(device_map.mesh());
  const int in_stage = device_map.mesh().ranks() / static_cast<int>(ends.size());
  std::vector<Simulated> result;
  for (const auto& [first, last] : ends) {
    const Program program = programs(first);
    const bool even = is_even(program);
    if (!even && !many) return {};
    result.push_back(make(program, device_map, first, in_stage));
    // Stages cut one graph: what the first one's activations show holds for the others'.
    if (!even || result.size() > 1 || first == last) continue;
    const Simulated other = make(programs(last), device_map, last, 1);
    if (*other.track != *result.back().track || other.report.memory != result.back().report.memory) return {};
  }
  return result;
}

}  // namespace

MemoryUse memory_of(const Program& program) {
  std::map<Role, size_t> states;
  size_t named = 0;
  for (const State& state : program.states) {
    const size_t bytes = state.stride() * static_cast<size_t>(state.slots);
    states[state.role] += bytes;
    named += bytes;
  }
  MemoryUse use{.kinds = {}, .peak_bytes = program.peak_bytes()};
  for (const auto& [role, bytes] : states)
    use.kinds.emplace_back(role == Role::kNone ? "states" : std::string(name(role)), bytes);
  if (program.state_bytes > named) use.kinds.emplace_back("alignment", program.state_bytes - named);
  use.kinds.emplace_back("activations", program.arena_bytes);
  use.kinds.emplace_back("comm memory", program.comm_bytes);
  use.kinds.emplace_back("inputs", program.input_bytes);
  return use;
}

const RankReport& SimReport::fullest() const {
  return *std::ranges::max_element(ranks, {}, [](const RankReport& rank) {
    return static_cast<double>(rank.memory.peak_bytes) / rank.device->memory_bytes;
  });
}

SimReport simulate(const DeviceMap& device_map, const ProgramSource& programs, const SimOptions& options) {
  std::vector<Simulated> simulated;
  const Disturbance& disturbance = options.disturbance;
  if (options.ranks == SimOptions::Ranks::kRepresentatives && !disturbance.is_any())
    simulated = representatives(device_map, programs);
  const Stands stands = simulated.empty() ? Stands::kForItself : Stands::kForItsStage;
  if (simulated.empty()) {
    for (int rank = 0; rank < device_map.mesh().ranks(); ++rank)
      simulated.push_back(make(programs(rank), device_map, rank, 1));
  }
  std::vector<Runner> runners, first_steps;
  for (const Simulated& one : simulated) {
    runners.push_back({one.report.rank, one.track.get()});
    if (one.first_steps) first_steps.push_back({one.report.rank, one.first_steps.get()});
  }
  CollectiveTimes times(device_map, options.collectives, options.algorithms);
  const auto run = [&](Events events, const Disturbance& what) {
    std::vector<RankTime> all = run_clock(runners, stands, device_map, times, events, what);
    if (first_steps.empty()) return all;
    const std::vector<RankTime> first =
        run_clock(first_steps, stands, device_map, times, Events::kNone, what);
    for (size_t r = 0; r < all.size(); ++r) all[r] = step_after(std::move(all[r]), first[r], kMoreSteps);
    return all;
  };
  std::vector<RankTime> ended = run(options.events, disturbance);

  SimReport report;
  report.parameters = simulated[0].parameters;
  std::map<const DeviceClass*, std::shared_ptr<const DeviceClass>>
      devices;  // one copy for all ranks of a class
  double waiting = 0;
  for (size_t r = 0; r < simulated.size(); ++r) {
    RankReport& rank = report.ranks.emplace_back(std::move(simulated[r].report));
    const DeviceClass& device = device_map.device(rank.rank);
    std::shared_ptr<const DeviceClass>& copy = devices[&device];
    if (!copy) copy = std::make_shared<const DeviceClass>(device);
    rank.device = copy;
    rank.time = std::move(ended[r]);
    const double times_over = rank.stands_for;
    report.step_seconds = std::max(report.step_seconds, rank.time.end_seconds);
    report.flops += times_over * rank.time.flops;
    report.bytes_sent += times_over * rank.time.bytes_sent;
    for (size_t i = 0; i < report.bytes.size(); ++i) report.bytes[i] += times_over * rank.time.bytes[i];
    waiting += times_over * rank.time.bubble_seconds;
  }
  if (disturbance.is_any()) report.drawn_seconds.push_back(report.step_seconds);
  for (int draw = 1; draw < options.draws && disturbance.jitter > 0; ++draw) {
    Disturbance other = disturbance;
    other.seed += static_cast<uint64_t>(draw);
    double end = 0;
    for (const RankTime& time : run(Events::kNone, other)) end = std::max(end, time.end_seconds);
    report.drawn_seconds.push_back(end);
  }
  std::ranges::sort(report.drawn_seconds);
  report.bubble = waiting / (report.step_seconds * device_map.mesh().ranks());
  return report;
}

}  // namespace trireme::sim
