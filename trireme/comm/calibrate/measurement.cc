// Turns times of the programs in programs.h into the curves of a LinkModel.
#include "trireme/comm/calibrate/measurement.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <numeric>
#include <thread>
#include <utility>

#include "trireme/comm/choice.h"
#include "trireme/comm/transport/heap_memory.h"

namespace trireme::comm {
namespace {

constexpr double kWarmupSeconds = 10e-3;
constexpr size_t kKi = 1024;
constexpr size_t kMi = 1024 * 1024;

// In which whole vectors are exchanged: about what is chosen for them.
size_t vector_segment(size_t bytes) {
  return std::clamp(bytes / 4, 16 * kKi, kDefaultSegmentBytes);
}

int vector_chunks(size_t bytes) {
  return static_cast<int>(bytes / vector_segment(bytes));
}

// Exchanges at once: so many that all of it stays where a vector of this size would.
int chains_of(size_t message_bytes) {
  return message_bytes < 16 * kKi ? 4 : 2;
}

// A curve without a part of it. Never less than a third: what is subtracted was measured, too.
template <typename Part>
Curve less(const Curve& curve, const Part& part) {
  std::vector<CurvePoint> points = curve.points();
  for (CurvePoint& point : points) {
    point.seconds = std::max(point.seconds / 3, point.seconds - part(point.bytes));
  }
  return points.empty() ? Curve() : Curve(std::move(points));
}

MeasuredSizes sizes_for(Thoroughness thoroughness) {
  if (thoroughness == Thoroughness::probe) {
    return {.messages = {8, 4 * kKi, 64 * kKi},
            .vectors = {512 * kKi, 2 * kMi},
            .native = {8, 4 * kKi, 64 * kKi, kMi, 4 * kMi},
            .native_collectives = {Collective::all_reduce},
            .rounds = 4,
            .passes = 3,
            .most_seconds = 25e-3,
            .effort = {.seconds = 0.1e-3, .fewest = 2}};
  }
  MeasuredSizes sizes{
      .messages = {8, 512, 4 * kKi, 16 * kKi, 64 * kKi, 256 * kKi, kMi},
      .vectors = {32 * kKi, 64 * kKi, 128 * kKi, 256 * kKi, 512 * kKi, kMi, 2 * kMi, 4 * kMi, 16 * kMi,
                  64 * kMi},
      .native = {},
      .native_collectives = {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
                             Collective::broadcast, Collective::barrier},
      .rounds = 8,
      .passes = 3,
      .most_seconds = 60,
      .effort = {.seconds = 6e-3, .fewest = 3}};
  for (size_t bytes = 8; bytes <= 64 * kMi; bytes *= 2) sizes.native.push_back(bytes);
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

// What a rank that shares its core with others while all pairs are at work does for itself in that time. They
// take turns in collectives, too, where the cost model lets them wait for the core, so their own times are
// what they would be alone.
double own_share(const Places& places, std::span<const RankPair> pairs) {
  if (places.cores.empty()) return 1;
  std::map<int, int> at_work;
  int most = 1;
  for (const RankPair& pair : pairs) {
    for (const int rank : {pair.first, pair.second}) most = std::max(most, ++at_work[places.cores[rank]]);
  }
  return 1.0 / most;
}

}  // namespace

Measurement::Measurement(Context& context, const CalibrationOptions& options)
    : context_(context),
      sizes_(sizes_for(options.thoroughness)),
      memory_(options.memory),
      cores_(static_cast<int>(std::thread::hardware_concurrency())),
      places_(places_of(context.hosts(), cores_)),
      inside_(pairs_inside(places_)),
      same_core_(pairs_of_cores(places_)),
      across_(pairs_across(places_)),
      members_(all_ranks(context)),
      engine_(context.transport(), context.number_group("links", members_), members_,
              {.timeout_seconds = context.timeout_seconds(),
               .hosts = context.hosts(),
               .recorder = &context.recorder(),
               .name = "links"}),
      watch_(engine_, sizes_.effort) {
  if (options.native) sizes_.native_collectives = {*options.native};
  // With one core on each host, or one rank, what is on the core or between hosts is all there is.
  if (inside_.empty()) inside_ = std::exchange(same_core_, {});
  if (inside_.empty()) inside_ = across_;
  const size_t most = std::max({8 * sizes_.messages.back(), sizes_.vectors.back(), sizes_.native.back()});
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
  const uint32_t program = ++programs_;
  while (seconds_since(begin) < kWarmupSeconds) {
    Operation& operation = engine_.steps(label(8), program, moving, 8, buffer_->bytes().data());
    engine_.wait(operation);
    engine_.release(operation);
  }
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
  add_exchanges(model.inside, inside_);
  add_reduce(model);
  if (!same_core_.empty()) {
    model.same_core = link(same_core_);
    add_exchanges(model.same_core, same_core_);
  }
  if (!across_.empty()) model.across = link(across_);
  if (!places_.cores.empty()) find_switches(model);
  add_vectors(model.inside, inside_);
  add_reduce_vectors(model);
  if (!same_core_.empty()) add_vectors(model.same_core, same_core_);
  for (const Collective collective : sizes_.native_collectives) {
    if (Curve curve = native_curve(collective); !curve.empty()) model.native[collective] = std::move(curve);
  }
  return model;
}

double Measurement::steps_seconds(const Steps& steps, size_t vector_bytes, size_t segment_bytes) {
  const Call call = label(vector_bytes);
  const uint32_t program = ++programs_;
  const double seconds = watch_.operation_seconds([&]() -> Operation& {
    return engine_.steps(call, program, steps, segment_bytes, buffer_->bytes().data());
  });
  return std::max(seconds - operation_seconds_, 0.0);
}

LinkCurves Measurement::link(std::span<const RankPair> pairs) {
  constexpr int kPhases = 4;
  std::vector<CurvePoint> message, gap;
  for (const size_t bytes : sizes_.messages) {
    const int hops = sizes_.rounds * (bytes <= 4 * kKi ? 4 : 1);
    message.push_back({bytes, steps_seconds(ping_pong(context_.ranks(), pairs, hops), bytes, bytes) / hops});
    const int messages = bytes < 256 * kKi ? 8 : 4;
    const double burst =
        steps_seconds(bursts(context_.ranks(), pairs, messages, kPhases), messages * bytes, bytes);
    const double gaps = burst / kPhases - message.back().seconds;
    gap.push_back({bytes, own_share(places_, pairs) * std::max(gaps, 0.0) / (messages - 1)});
  }
  LinkCurves link;
  link.message = Curve(message);
  link.gap = Curve(gap);
  return link;
}

void Measurement::add_exchanges(LinkCurves& link, std::span<const RankPair> pairs) {
  const double share = own_share(places_, pairs);
  std::vector<CurvePoint> exchange, add;
  for (const size_t bytes : sizes_.messages) {
    const auto seconds = [&](Action action) {
      return exchange_seconds(exchanges(context_.ranks(), pairs, chains_of(bytes), sizes_.rounds, action),
                              share, bytes);
    };
    exchange.push_back({bytes, seconds(Action::copy)});
    add.push_back({bytes, std::max(0.0, seconds(Action::add) - exchange.back().seconds)});
  }
  link.exchange = Curve(exchange);
  link.add = Curve(add);
}

// Of one message of the program, of which there are so many chains at once.
double Measurement::exchange_seconds(const Steps& steps, double share, size_t bytes) {
  const size_t vector_bytes = static_cast<size_t>(steps.chunks()) * bytes;
  return share * steps_seconds(steps, vector_bytes, bytes) / (sizes_.rounds * chains_of(bytes));
}

void Measurement::add_vectors(LinkCurves& link, std::span<const RankPair> pairs) {
  const double share = own_share(places_, pairs);
  std::vector<CurvePoint> exchange, add;
  for (const size_t bytes : sizes_.vectors) {
    const auto seconds = [&](Action action) {
      return vector_seconds(vector_exchange(context_.ranks(), pairs, vector_chunks(bytes), action), share,
                            bytes, link.exchange.seconds(0));
    };
    exchange.push_back({bytes, seconds(Action::copy)});
    add.push_back({bytes, seconds(Action::add)});
  }
  link.exchange_vectors = Curve(exchange);
  link.add_vectors = Curve(add);
}

// What a message costs whatever its size is no part of the pass: the cost model adds it for each.
double Measurement::vector_seconds(const Steps& steps, double share, size_t bytes, double message_seconds) {
  const double all = share * steps_seconds(steps, bytes, vector_segment(bytes));
  return std::max(0.0, all - steps.chunks() * message_seconds);
}

// Right after the exchanges that are subtracted: what a vector of 64 MiB leaves in the caches would count.
void Measurement::add_reduce(LinkModel& model) {
  const double share = own_share(places_, inside_);
  std::vector<CurvePoint> messages;
  for (const size_t bytes : sizes_.messages) {
    const double reduced =
        exchange_seconds(mirrored(context_.ranks(), inside_, chains_of(bytes), sizes_.rounds), share, bytes);
    messages.push_back({bytes, std::max(0.0, reduced - model.inside.exchange.seconds(bytes))});
  }
  model.reduce = Curve(messages);
}

void Measurement::add_reduce_vectors(LinkModel& model) {
  const LinkCurves& link = model.inside;
  const double share = own_share(places_, inside_);
  std::vector<CurvePoint> vectors;
  for (const size_t bytes : sizes_.vectors) {
    const double reduced = vector_seconds(mirrored(context_.ranks(), inside_, vector_chunks(bytes), 1), share,
                                          bytes, link.exchange.seconds(0));
    vectors.push_back({bytes, std::max(0.0, reduced - link.exchange_vectors.seconds(bytes))});
  }
  model.reduce_vectors = Curve(vectors);
}

// Where ranks share cores, every message of a ping-pong costs a switch, and in an exchange a rank sends those
// of two rounds before the other gets its turn. The cost model counts switches for themselves, so they are
// taken out. Of passes over vectors they are a small part, and their number is not known as well.
void Measurement::find_switches(LinkModel& model) const {
  const LinkCurves& near = same_core_.empty() ? model.inside : model.same_core;
  const auto share = [](size_t bytes) { return 1.0 / (2 * chains_of(bytes)); };
  model.switch_seconds = std::max(0.0, near.message.seconds(0) - near.exchange.seconds(0)) / (1 - share(0));
  for (LinkCurves* link : {&model.inside, &model.same_core}) {
    link->message = less(link->message, [&](size_t) { return model.switch_seconds; });
    link->exchange = less(link->exchange, [&](size_t bytes) { return share(bytes) * model.switch_seconds; });
  }
}

Curve Measurement::native_curve(Collective collective) {
  std::vector<CurvePoint> points;
  for (const size_t bytes : sizes_.native) {
    Call call = label(collective == Collective::barrier ? 0 : bytes);
    call.collective = collective;
    call.algorithm = Algorithm::native;
    if (!engine_.offers_native(call)) break;
    const auto start = [&]() -> Operation& { return engine_.collective(call, buffer_->bytes().data(), {}); };
    points.push_back({bytes, watch_.operation_seconds(start)});
    if (collective == Collective::barrier) break;
  }
  return points.empty() ? Curve() : Curve(points);
}

}  // namespace trireme::comm
