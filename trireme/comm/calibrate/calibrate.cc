// Turns times of the programs in programs.h into the curves of a LinkModel; see calibrate.h.
#include "trireme/comm/calibrate/calibrate.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/comm/calibrate/programs.h"
#include "trireme/comm/calibrate/share.h"
#include "trireme/comm/calibrate/stopwatch.h"
#include "trireme/comm/choice.h"
#include "trireme/comm/engine.h"
#include "trireme/comm/reduce.h"
#include "trireme/comm/transport/heap_memory.h"

namespace trireme::comm {
namespace {

constexpr size_t kKi = 1024;
constexpr size_t kMi = 1024 * 1024;
// Segments in which whole vectors are exchanged, two at least.
constexpr size_t kVectorSegment = kDefaultSegmentBytes;

struct Sizes {
  std::vector<size_t> messages;
  std::vector<size_t> vectors;
  std::vector<size_t> native;
  double seconds;  // for each figure
};

Sizes sizes_for(Thoroughness thoroughness) {
  if (thoroughness == Thoroughness::probe) {
    return {.messages = {8, 4 * kKi, 64 * kKi},
            .vectors = {kMi},
            .native = {8, 4 * kKi, 64 * kKi, kMi},
            .seconds = 0.2e-3};
  }
  Sizes sizes{.messages = {8, 512, 4 * kKi, 16 * kKi, 64 * kKi, 256 * kKi, kMi},
              .vectors = {512 * kKi, kMi, 2 * kMi, 4 * kMi, 16 * kMi, 64 * kMi},
              .native = {},
              .seconds = 20e-3};
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

class Calibration {
 public:
  Calibration(Context& context, const CalibrationOptions& options)
      : context_(context),
        sizes_(sizes_for(options.thoroughness)),
        memory_(options.memory),
        members_(all_ranks(context)),
        engine_(context.transport(), context.number_group("links", members_), members_,
                {.timeout_seconds = context.timeout_seconds(),
                 .hosts = context.hosts(),
                 .recorder = &context.recorder(),
                 .name = "links"}),
        watch_(engine_, sizes_.seconds) {
    const size_t most = std::max({8 * sizes_.messages.back(), sizes_.vectors.back(), sizes_.native.back()});
    const bool own = options.memory == MemoryKind::transport;
    buffer_ = own ? context.transport().allocate(most) : heap_memory(most);
  }

  LinkModel measure();

 private:
  LinkCurves link(std::span<const RankPair> pairs);
  double steps_seconds(const Steps& steps, size_t vector_bytes, size_t segment_bytes);
  double exchange_seconds(std::span<const RankPair> pairs, size_t bytes, Action action);
  double vector_seconds(std::span<const RankPair> pairs, size_t bytes, Action action);
  double reduce_seconds(size_t bytes, size_t step);
  Curve native_curve(Collective collective);

  Context& context_;
  Sizes sizes_;
  MemoryKind memory_;
  std::vector<int> members_;
  Engine engine_;
  Stopwatch watch_;
  std::unique_ptr<Memory> buffer_;
  uint32_t programs_ = 0;
  double operation_seconds_ = 0;
  // Ranks that share cores while all pairs are at work do so in collectives too, where the cost model lets
  // them wait for one. So their own times are what they would be alone.
  double own_share_ = 1;
};

// Without what starting and ending the operation takes.
double Calibration::steps_seconds(const Steps& steps, size_t vector_bytes, size_t segment_bytes) {
  const Call call = label(vector_bytes);
  const uint32_t program = ++programs_;
  const double seconds = watch_.operation_seconds([&]() -> Operation& {
    return engine_.steps(call, program, steps, segment_bytes, buffer_->bytes().data());
  });
  return std::max(seconds - operation_seconds_, 0.0);
}

double Calibration::exchange_seconds(std::span<const RankPair> pairs, size_t bytes, Action action) {
  const int chains = bytes < 64 * kKi ? 4 : 2;
  constexpr int kRounds = 8;
  const Steps steps = exchanges(context_.ranks(), pairs, chains, kRounds, action);
  return own_share_ * steps_seconds(steps, 2 * chains * bytes, bytes) / (kRounds * chains);
}

double Calibration::vector_seconds(std::span<const RankPair> pairs, size_t bytes, Action action) {
  const int chunks = static_cast<int>(bytes / kVectorSegment);
  const Steps steps = vector_exchange(context_.ranks(), pairs, chunks, action);
  return own_share_ * steps_seconds(steps, bytes, kVectorSegment);
}

// Adding what lies in a few places of `step` bytes, used in turn, to `bytes` of the vector.
double Calibration::reduce_seconds(size_t bytes, size_t step) {
  constexpr size_t kPlaces = 4;
  const Combine add = combine_function(DType::f32, ReduceOp::sum);
  const std::unique_ptr<Memory> beside = heap_memory(kPlaces * step);
  std::byte* const to = buffer_->bytes().data();
  const int repeats = bytes < 16 * kKi ? 64 : 1;
  const double seconds = watch_.median_seconds([&] {
    for (int i = 0; i < repeats; ++i) {
      for (size_t at = 0; at < bytes; at += step) {
        add(to + at, beside->bytes().data() + at / step % kPlaces * step, std::min(step, bytes - at));
      }
    }
  });
  return own_share_ * seconds / repeats;
}

LinkCurves Calibration::link(std::span<const RankPair> pairs) {
  constexpr int kPhases = 4;
  std::vector<CurvePoint> message, gap;
  for (const size_t bytes : sizes_.messages) {
    const int hops = bytes <= 4 * kKi ? 32 : 8;
    message.push_back({bytes, steps_seconds(ping_pong(context_.ranks(), pairs, hops), bytes, bytes) / hops});
    const int messages = bytes < 256 * kKi ? 8 : 4;
    const double burst =
        steps_seconds(bursts(context_.ranks(), pairs, messages, kPhases), messages * bytes, bytes);
    const double gaps = burst / kPhases - message.back().seconds;
    gap.push_back({bytes, own_share_ * std::max(gaps, 0.0) / (messages - 1)});
  }
  return {.message = Curve(message), .gap = Curve(gap), .exchange = {}};
}

Curve Calibration::native_curve(Collective collective) {
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

LinkModel Calibration::measure() {
  const int ranks = context_.ranks();
  LinkModel model;
  model.transport = context_.transport().name();
  model.memory = memory_;
  model.ranks = ranks;
  model.cores = static_cast<int>(std::thread::hardware_concurrency());
  std::memset(buffer_->bytes().data(), 0, buffer_->bytes().size());

  // With one rank on each host, what is between hosts is all there is.
  const std::vector<RankPair> across = pairs_across(context_.hosts());
  std::vector<RankPair> inside = pairs_inside(context_.hosts());
  if (inside.empty()) inside = across;
  const int at_work = static_cast<int>(std::ranges::count(context_.hosts(), context_.hosts()[0])) / 2 * 2;
  own_share_ = std::min(1.0, static_cast<double>(model.cores) / std::max(at_work, 1));

  // Two lengths of one program tell what a message takes from what the operation does.
  constexpr int kShort = 2, kLong = 32;
  const double shorter = steps_seconds(ping_pong(ranks, inside, kShort), 8, 8);
  const double longer = steps_seconds(ping_pong(ranks, inside, kLong), 8, 8);
  operation_seconds_ = std::max(0.0, shorter - kShort * (longer - shorter) / (kLong - kShort));
  model.operation_seconds = operation_seconds_;

  model.inside = link(inside);
  std::vector<CurvePoint> exchange, add, reduce;
  for (const size_t bytes : sizes_.messages) {
    exchange.push_back({bytes, exchange_seconds(inside, bytes, Action::copy)});
    const double added = exchange_seconds(inside, bytes, Action::add);
    add.push_back({bytes, std::max(0.0, added - exchange.back().seconds)});
    reduce.push_back({bytes, reduce_seconds(bytes, bytes)});
  }
  model.inside.exchange = Curve(exchange);
  model.add = Curve(add);
  model.reduce = Curve(reduce);
  std::vector<CurvePoint> vector_exchange, vector_add, vector_reduce;
  for (const size_t bytes : sizes_.vectors) {
    vector_exchange.push_back({bytes, vector_seconds(inside, bytes, Action::copy)});
    vector_add.push_back({bytes, vector_seconds(inside, bytes, Action::add)});
    vector_reduce.push_back({bytes, reduce_seconds(bytes, kVectorSegment)});
  }
  model.vectors = {Curve(vector_exchange), Curve(vector_add), Curve(vector_reduce)};
  if (!across.empty()) model.across = link(across);
  for (const Collective collective : {Collective::all_reduce, Collective::reduce_scatter,
                                      Collective::all_gather, Collective::broadcast, Collective::barrier}) {
    if (Curve curve = native_curve(collective); !curve.empty()) model.native[collective] = std::move(curve);
  }
  return model;
}

}  // namespace

LinkModel measure_links(Context& context, const CalibrationOptions& options) {
  if (context.ranks() < 2)
    throw_error("links are measured between ranks, and there is one alone; -n RANKS starts some");
  LinkModel model = Calibration(context, options).measure();
  return parse_link_models(text_of_rank_0(context, to_json({&model, 1})), "the links that rank 0 measured")
      .front();
}

LinkModel read_links(Context& context, const std::string& path, MemoryKind memory) {
  std::string text, problem;
  if (context.rank() == 0) {
    try {
      const std::vector<LinkModel> models = read_link_models(path);
      const LinkModel* model = find_link_model(models, context.transport().name(), context.ranks(), memory);
      if (model == nullptr) {
        throw_error(
            "{}: nothing was measured of {} with {} memory; measure it with: trireme bench collectives "
            "-n {} --transport {} --calibrate {}",
            path, context.transport().name(), name(memory), context.ranks(), context.transport().name(),
            path);
      }
      text = to_json({model, 1});
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  // All learn of it, so that all end with the reason rather than by the death of rank 0.
  problem = text_of_rank_0(context, problem);
  if (!problem.empty()) throw Error(problem);
  return parse_link_models(text_of_rank_0(context, text), path).front();
}

}  // namespace trireme::comm
