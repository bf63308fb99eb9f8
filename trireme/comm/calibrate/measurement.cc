// Turns times of the programs in programs.h into the curves of a LinkModel.
#include "trireme/comm/calibrate/measurement.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <thread>

#include "trireme/comm/calibrate/middle.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/choice.h"
#include "trireme/comm/transport/heap_memory.h"

namespace trireme::comm {
namespace {

constexpr double kWarmupSeconds = 10e-3;
constexpr int kTurns = 3;
constexpr int64_t kFewestOperations = 3;  // that are timed of one kind, where they take long
constexpr size_t kKi = 1024;
constexpr size_t kMi = 1024 * 1024;
// Shorter ones stay in a core's caches, and fewer kinds of passes predict them well.
constexpr size_t kLongVector = kMi;
constexpr size_t kFinerSegment = 64 * kKi;    // than that of long vectors
constexpr size_t kLongestCutFiner = 4 * kMi;  // of longer ones the difference is lost in the noise

// In which whole vectors are exchanged: about what is chosen for them.
size_t vector_segment(size_t bytes) {
  return std::clamp(bytes / 4, 16 * kKi, kDefaultSegmentBytes);
}

MeasuredSizes sizes_for(Thoroughness thoroughness) {
  if (thoroughness == Thoroughness::probe) {
    return {.messages = {8, 4 * kKi, 64 * kKi},
            .vectors = {512 * kKi, 2 * kMi},
            .operations = {8, 4 * kKi, 64 * kKi, kMi},
            .collectives = {Collective::all_reduce},
            .rounds = 4,
            .passes = 3,
            .most_seconds = 25e-3,
            .effort = {.seconds = 0.1e-3, .fewest = 2}};
  }
  MeasuredSizes sizes{.messages = {8, 512, kKi, 2 * kKi, 4 * kKi, 16 * kKi, 64 * kKi, 256 * kKi, kMi},
                      .vectors = {32 * kKi, 64 * kKi, 128 * kKi, 256 * kKi, 512 * kKi, kMi, 2 * kMi, 4 * kMi,
                                  16 * kMi, 64 * kMi},
                      .operations = {8, 64, 512},
                      .collectives = {Collective::all_reduce, Collective::reduce_scatter,
                                      Collective::all_gather, Collective::broadcast, Collective::barrier},
                      .rounds = 8,
                      .passes = 3,
                      .most_seconds = 60,
                      .effort = {.seconds = 6e-3, .fewest = 5}};
  for (size_t bytes = kKi; bytes <= 64 * kMi; bytes *= bytes < kMi ? 2 : 4) sizes.operations.push_back(bytes);
  return sizes;
}

// Of a vector of so many bytes; the collective only serves to label messages.
Call label(size_t bytes) {
  return {.collective = Collective::all_reduce,
          .algorithm = Algorithm::naive,
          .dtype = DType::f32,
          .count = static_cast<int64_t>(bytes / sizeof(float))};
}

std::vector<int> all_ranks(const Context& context) {
  std::vector<int> members(static_cast<size_t>(context.ranks()));
  std::iota(members.begin(), members.end(), 0);
  return members;
}

// Ranks of one host that are at work when all pairs are.
double ranks_at_work(const Context& context) {
  const auto on_host = std::ranges::count(context.hosts(), context.hosts()[0]);
  return static_cast<double>(std::max<int64_t>(on_host / 2 * 2, 1));
}

bool is_crowded(std::span<const int> hosts, int cores) {
  return std::ranges::any_of(hosts, [&](int host) { return std::ranges::count(hosts, host) > cores; });
}

}  // namespace

Measurement::Measurement(Context& context, const CalibrationOptions& options)
    : context_(context),
      sizes_(sizes_for(options.thoroughness)),
      memory_(options.memory),
      inside_(pairs_inside(context.hosts())),
      across_(pairs_across(context.hosts())),
      cores_(static_cast<int>(std::thread::hardware_concurrency())),
      crowded_(is_crowded(context.hosts(), cores_)),
      own_share_(std::min(1.0, cores_ / ranks_at_work(context))),
      members_(all_ranks(context)),
      engine_(context.transport(), context.number_group("links", members_), members_,
              {.timeout_seconds = context.timeout_seconds(),
               .hosts = context.hosts(),
               .recorder = &context.recorder(),
               .name = "links"}),
      // Among ranks that take turns on a core, the transport's own barrier is slower than messages.
      barrier_(crowded_ ? Algorithm::butterfly : Algorithm::automatic),
      watch_(engine_, barrier_, sizes_.effort) {
  // The barrier always: it is quick to time, and who times others puts it before each.
  if (options.collective) sizes_.collectives = {*options.collective, Collective::barrier};
  // With one rank on each host, what is between hosts is all there is.
  if (inside_.empty()) inside_ = across_;
  const size_t most = std::max({8 * sizes_.messages.back(), sizes_.vectors.back(), sizes_.operations.back()});
  const bool own = options.memory == MemoryKind::transport;
  buffer_ = own ? context.transport().allocate(most) : heap_memory(most);
  std::memset(buffer_->bytes().data(), 0, buffer_->bytes().size());
}

double Measurement::seconds_since(Clock::time_point begin) {
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
  return static_cast<double>(watch_.from_rank_0(microseconds.count())) * 1e-6;
}

std::vector<LinkModel> Measurement::run() {
  const auto begin = Clock::now();
  warm_up();
  std::vector<LinkModel> models;
  do {
    models.push_back(pass());
  } while (static_cast<int>(models.size()) < sizes_.passes && seconds_since(begin) < sizes_.most_seconds);
  return models;
}

// Messages in vain: ranks that have just started are still being moved between cores.
void Measurement::warm_up() {
  const auto begin = Clock::now();
  const Steps moving = ping_pong(context_.ranks(), inside_, 32);
  while (seconds_since(begin) < kWarmupSeconds) steps_seconds(moving, 8, 8);
}

LinkModel Measurement::pass() {
  operation_seconds_ = 0;
  operation_seconds_ = steps_seconds(ping_pong(context_.ranks(), inside_, 0), 8, 8);
  LinkModel model;
  model.transport = context_.transport().name();
  model.memory = memory_;
  model.ranks = context_.ranks();
  model.cores = cores_;
  model.operation_seconds = operation_seconds_;
  model.inside = link(inside_);
  if (!across_.empty()) model.across = link(across_);
  add_exchanges(model);
  add_vectors(model);
  for (const Collective collective : sizes_.collectives) {
    TimedOperations timed = timed_operations(collective);
    if (!timed.empty()) model.timed[collective] = std::move(timed);
  }
  return model;
}

double Measurement::steps_seconds(const Steps& steps, size_t vector_bytes, size_t segment_bytes) {
  const Call call = label(vector_bytes);
  const uint32_t program = ++programs_;
  const double seconds = watch_.operation_seconds(vector_bytes, [&]() -> Operation& {
    return engine_.steps(call, program, steps, segment_bytes, buffer_->bytes().data());
  });
  return std::max(seconds - operation_seconds_, 0.0);
}

// A message alone takes no longer than one that meets another on its way; where it seems to, a rank that had
// nothing else to do was slow to see it. Of short ones the mean of both: those that meet take up to a third
// longer, and algorithms have both.
double Measurement::message_seconds(std::span<const RankPair> pairs, size_t bytes) {
  const int ranks = context_.ranks();
  const bool is_short = bytes <= 4 * kKi;
  const int hops = sizes_.rounds * (is_short ? 4 : 1);
  const double met = steps_seconds(exchanges(ranks, pairs, 1, hops, Action::copy), 2 * bytes, bytes) / hops;
  const double alone = std::min(met, steps_seconds(ping_pong(ranks, pairs, hops), bytes, bytes) / hops);
  return is_short ? (alone + met) / 2 : alone;
}

LinkCurves Measurement::link(std::span<const RankPair> pairs) {
  constexpr int kPhases = 4;
  std::vector<CurvePoint> message, gap;
  for (const size_t bytes : sizes_.messages) {
    message.push_back({bytes, message_seconds(pairs, bytes)});
    const int messages = bytes < 256 * kKi ? 8 : 4;
    const double burst =
        steps_seconds(bursts(context_.ranks(), pairs, messages, kPhases), messages * bytes, bytes);
    const double gaps = burst / kPhases - message.back().seconds;
    gap.push_back({bytes, own_share_ * std::max(gaps, 0.0) / (messages - 1)});
  }
  return {.message = Curve(message), .gap = Curve(gap), .exchange = {}};
}

void Measurement::add_exchanges(LinkModel& model) {
  const int ranks = context_.ranks();
  std::vector<CurvePoint> exchange, add, reduce;
  for (const size_t bytes : sizes_.messages) {
    const int chains = bytes < 16 * kKi ? 4 : 2;  // so that all of it stays where a vector of this size would
    const auto seconds = [&](const Steps& steps) {
      const size_t vector_bytes = static_cast<size_t>(steps.chunks()) * bytes;
      return own_share_ * steps_seconds(steps, vector_bytes, bytes) / (sizes_.rounds * chains);
    };
    const double taken = seconds(exchanges(ranks, inside_, chains, sizes_.rounds, Action::copy));
    const double added = seconds(exchanges(ranks, inside_, chains, sizes_.rounds, Action::add));
    const double reduced = seconds(mirrored(ranks, inside_, chains, sizes_.rounds));
    exchange.push_back({bytes, taken});
    add.push_back({bytes, std::max(0.0, added - taken)});
    reduce.push_back({bytes, std::max(0.0, reduced - taken)});
  }
  model.inside.exchange = Curve(exchange);
  model.add = Curve(add);
  model.reduce = Curve(reduce);
}

double Measurement::vector_seconds(size_t bytes, size_t segment, Action first, Action then) {
  const int chunks = static_cast<int>(bytes / segment);
  const Steps steps = vector_exchange(context_.ranks(), inside_, chunks, first, then);
  return own_share_ * steps_seconds(steps, bytes, segment);
}

void Measurement::add_vectors(LinkModel& model) {
  std::vector<CurvePoint> message, exchange, add, reduce;
  const double of_no_bytes = model.inside.exchange.seconds(0);
  double each = of_no_bytes;  // what a message costs whatever its size
  for (const size_t bytes : sizes_.vectors) {
    const size_t segment = vector_segment(bytes);
    const int chunks = static_cast<int>(bytes / segment);
    double taken = vector_seconds(bytes, segment, Action::copy, Action::copy);
    double added = vector_seconds(bytes, segment, Action::add, Action::add);
    if (bytes >= kLongVector) {
      // Half of each, as in an all-reduce: it leaves the caches as neither alone does. Adding takes no less.
      const double mixed = vector_seconds(bytes, segment, Action::add, Action::copy);
      const double both = std::max(taken + added, std::numeric_limits<double>::min());
      taken = 2 * mixed * std::min(taken / both, 0.5);
      added = 2 * mixed - taken;
      if (bytes <= kLongestCutFiner) {
        const double finer = vector_seconds(bytes, kFinerSegment, Action::add, Action::copy);
        const auto more = static_cast<double>(bytes / kFinerSegment - bytes / segment);
        each = std::max(of_no_bytes, (finer - mixed) / more);
        message.push_back({bytes, each});
      }
    }
    // No part of the pass: the cost model adds it for each message.
    const double messages = chunks * each;
    exchange.push_back({bytes, std::max(0.0, taken - messages)});
    add.push_back({bytes, std::max(0.0, added - messages)});
    const double reduced =
        own_share_ * steps_seconds(mirrored(context_.ranks(), inside_, chunks, 1), bytes, segment);
    reduce.push_back({bytes, std::max(0.0, reduced - taken)});
  }
  model.vectors = {.message = Curve(message),
                   .exchange = Curve(exchange),
                   .add = Curve(add),
                   .reduce = Curve(reduce),
                   .hand_on = {}};
  // Among crowded ranks a pair's time is not what the cost model says of a pair.
  if (!crowded_) model.vectors.hand_on = hand_on(model);
}

double Measurement::beyond_prediction(const LinkModel& model, size_t bytes, size_t segment) {
  const Steps steps = handed_back(context_.ranks(), inside_);
  const Costs costs = costs_of(model, context_.hosts(), bytes);
  return steps_seconds(steps, bytes, segment) - predict_seconds(steps, {&bytes, 1}, segment, costs);
}

// What handing back takes beyond its prediction is laid on the messages that are handed on. Finer segments
// cost such a rank less than others; where either may be chosen, the mean of both is near enough to each.
Curve Measurement::hand_on(const LinkModel& model) {
  std::vector<CurvePoint> points;
  for (const size_t bytes : sizes_.vectors) {
    if (bytes < kLongVector) continue;
    double beyond = beyond_prediction(model, bytes, vector_segment(bytes));
    if (bytes <= kLongestCutFiner) beyond = (beyond + beyond_prediction(model, bytes, kFinerSegment)) / 2;
    points.push_back({bytes, std::max(0.0, model.vectors.exchange.seconds(bytes) + beyond)});
  }
  return Curve(points);
}

TimedOperations Measurement::timed_operations(Collective collective) {
  std::vector<Algorithm> algorithms{Algorithm::native};
  // An all-to-all has more to say than a call.
  if (crowded_ && collective != Collective::all_to_all) {
    const std::vector<Algorithm> others = algorithms_for(collective, context_.hosts());
    algorithms.insert(algorithms.end(), others.begin(), others.end());
  }
  std::map<Algorithm, std::vector<CurvePoint>> points;
  for (const size_t bytes : sizes_.operations) {
    Call call = label(collective == Collective::barrier ? 0 : bytes);
    call.collective = collective;
    call.algorithm = Algorithm::native;
    if (!engine_.offers_native(call)) std::erase(algorithms, Algorithm::native);
    // Ranks that share a core fall into one of several ways to take turns, and stay in it for a while: so
    // algorithms are timed in turns, too.
    const int turns = bytes < kMi && algorithms.size() > 1 ? kTurns : 1;
    Stopwatch watch(engine_, barrier_,
                    {.seconds = sizes_.effort.seconds / turns,
                     .fewest = std::min(sizes_.effort.fewest, kFewestOperations)});
    std::map<Algorithm, std::vector<double>> seconds;
    for (int turn = 0; turn < turns; ++turn) {
      for (const Algorithm algorithm : algorithms) {
        call.algorithm = algorithm;
        seconds[algorithm].push_back(watch.operation_seconds(
            bytes, [&]() -> Operation& { return engine_.collective(call, buffer_->bytes().data(), {}); }));
      }
    }
    for (auto& [algorithm, times] : seconds) points[algorithm].push_back({bytes, middle_of(times)});
    if (collective == Collective::barrier) break;
  }
  TimedOperations timed;
  for (const auto& [algorithm, list] : points) timed[algorithm] = Curve(list);
  return timed;
}

}  // namespace trireme::comm
