// Finds the ranks that can stand for others, runs the clock, adds up.
#include "trireme/sim/simulate.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "trireme/base/error.h"
#include "trireme/plan/clients.h"
#include "trireme/sim/arrivals.h"

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

// Ranks that are all simulated where their parts have different sizes.
constexpr int kMostUneven = 256;

struct Simulated {
  std::unique_ptr<Track> track;
  RankReport report;
  int64_t parameters = 0;
};

Simulated make(const Program& program, const DeviceMap& device_map, int rank, int stands_for,
               Overlap overlap) {
  return {std::make_unique<Track>(track_of(program, device_map.device(rank), overlap)),
          {.rank = rank, .stands_for = stands_for, .device = {}, .memory = memory_of(program), .time = {}},
          program.parameters};
}

// Whether all its messages are to other stages. Others are to neighbours, who lie differently for each rank.
bool keeps_to_pipe(const Track& track, const Mesh& mesh) {
  for (const TrackList& list : track.lists) {
    for (const TrackAction& action : list.actions) {
      const bool message = action.kind == Action::Kind::kSend || action.kind == Action::Kind::kReceive;
      if (message && action.axis != mesh.find(kPipeAxis)) return false;
    }
  }
  return true;
}

// One of each stage; nothing where ranks differ, unless they are too many to look at all, and differ in the
// sizes of their parts alone: then the first, whose parts are the largest.
std::vector<Simulated> representatives(const DeviceMap& device_map, const ProgramSource& programs,
                                       Overlap overlap) {
  if (!device_map.is_symmetric()) return {};
  const bool many = device_map.mesh().ranks() > kMostUneven;
  const std::vector<std::pair<int, int>> ends = ends_of_stages(device_map.mesh());
  const int in_stage = device_map.mesh().ranks() / static_cast<int>(ends.size());
  std::vector<Simulated> result;
  for (const auto& [first, last] : ends) {
    const Program program = programs(first);
    const bool even = is_even(program);
    if (!even && !many) return {};
    result.push_back(make(program, device_map, first, in_stage, overlap));
    if (!keeps_to_pipe(*result.back().track, device_map.mesh())) return {};
    // Stages cut one graph: what the first one's activations show holds for the others'.
    if (!even || result.size() > 1 || first == last) continue;
    const Simulated other = make(programs(last), device_map, last, 1, overlap);
    if (*other.track != *result.back().track || other.report.memory != result.back().report.memory) return {};
  }
  return result;
}

// In step, that of the rank that takes longest. At their own pace, the time in which ranks make one step each
// on the average.
double step_seconds(const std::vector<RankTime>& ranks, Pace pace) {
  double longest = 0, rate = 0;
  for (const RankTime& rank : ranks) {
    longest = std::max(longest, rank.end_seconds);
    if (rank.steps > 0 && rank.end_seconds > 0) rate += 1 / rank.end_seconds;
  }
  return pace == Pace::kInStep ? longest : static_cast<double>(ranks.size()) / rate;
}

}  // namespace

MemoryUse memory_of(const Program& program) {
  std::map<Role, size_t> states = state_bytes_by_role(program);
  for (const State& state : program.states) {
    if (state.group >= 0) states[state.role] += state.stride();
  }
  size_t named = 0;
  for (const auto& [role, bytes] : states) named += bytes;
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

namespace {

// Those of a plan by which some replicas have nothing to do for a while; none where all ranks do alike.
std::optional<Clients> idling_clients(const std::optional<Plan>& plan) {
  if (!plan || plan->agreement.way() != ExchangeKind::Of::kWeightedMeans) return std::nullopt;
  const Clients clients(plan->agreement, replicas_of(plan->mesh));
  return clients.leave_some_idle() ? std::optional(clients) : std::nullopt;
}

LockstepAgenda::Idle idle_steps(const std::optional<Clients>& clients, const Mesh& mesh, int rank) {
  if (!clients) return nullptr;
  return [of = *clients, replica = replica_of(mesh, rank)](int64_t step) {
    return !of.trained(step - 1, replica);
  };
}

}  // namespace

SimReport simulate(const DeviceMap& device_map, const ProgramSource& programs, const SimOptions& options) {
  std::vector<Simulated> simulated;
  const Disturbance& disturbance = options.disturbance;
  const std::optional<Clients> clients = idling_clients(options.plan);
  if (options.ranks == SimOptions::Ranks::kRepresentatives && !disturbance.is_any() && !clients)
    simulated = representatives(device_map, programs, options.overlap);
  const Stands stands = simulated.empty() ? Stands::kForItself : Stands::kForItsStage;
  if (simulated.empty()) {
    for (int rank = 0; rank < device_map.mesh().ranks(); ++rank)
      simulated.push_back(make(programs(rank), device_map, rank, 1, options.overlap));
  }
  CollectiveTimes times(device_map, options.collectives, options.algorithms);
  const auto run = [&](const Window& window, Pace pace, Events events, const Disturbance& what) {
    std::vector<std::unique_ptr<Agenda>> agendas;
    std::vector<SimulatedRank> runners;
    for (const Simulated& one : simulated) {
      agendas.push_back(
          pace == Pace::kOwn
              ? own_pace_agenda(*one.track, options.plan, one.report.rank, window)
              : std::make_unique<LockstepAgenda>(*one.track, window,
                                                 idle_steps(clients, device_map.mesh(), one.report.rank)));
      runners.push_back({one.report.rank, one.track.get(), agendas.back().get()});
    }
    return run_clock(runners, stands, device_map, times, events, what, pace, window.before);
  };
  const bool own_pace =
      std::ranges::any_of(simulated, [](const Simulated& one) { return goes_by_arrivals(*one.track); });
  const Pace pace = own_pace ? Pace::kOwn : Pace::kInStep;
  const Window window = own_pace ? kOwnPaceWindow : window_of(*simulated[0].track);
  std::vector<RankTime> ended = run(window, pace, options.events, disturbance);

  SimReport report;
  report.parameters = simulated[0].parameters;
  report.steps = window.steps;
  report.step_seconds = step_seconds(ended, pace);
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
    double times_over = rank.stands_for;
    if (pace == Pace::kOwn)
      times_over *= rank.time.steps > 0 ? report.step_seconds / rank.time.end_seconds : 0;
    report.flops += times_over * rank.time.flops;
    report.bytes_sent += times_over * rank.time.bytes_sent;
    for (size_t i = 0; i < report.bytes.size(); ++i) report.bytes[i] += times_over * rank.time.bytes[i];
    waiting += times_over * rank.time.bubble_seconds;
  }
  if (disturbance.is_any()) report.drawn_seconds.push_back(report.step_seconds);
  for (int draw = 1; draw < options.draws && disturbance.jitter > 0; ++draw) {
    Disturbance other = disturbance;
    other.seed += static_cast<uint64_t>(draw);
    report.drawn_seconds.push_back(step_seconds(run(window, pace, Events::kNone, other), pace));
  }
  std::ranges::sort(report.drawn_seconds);
  for (const Window& early : early_windows(*simulated[0].track)) {
    EarlyStep& step = report.early.emplace_back(EarlyStep{.until = early.from + 1});
    const std::vector<RankTime> times_of_early = run(early, Pace::kInStep, Events::kNone, {});
    step.step_seconds = step_seconds(times_of_early, Pace::kInStep);
    for (size_t r = 0; r < times_of_early.size(); ++r)
      step.bytes_sent += report.ranks[r].stands_for * times_of_early[r].bytes_sent;
  }
  report.bubble = waiting / (report.step_seconds * device_map.mesh().ranks());
  return report;
}

}  // namespace trireme::sim
