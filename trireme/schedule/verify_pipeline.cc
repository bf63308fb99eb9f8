// See verify_pipeline.h.
#include "trireme/schedule/verify_pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "trireme/base/error.h"
#include "trireme/schedule/play.h"

namespace trireme {
namespace {

void check_holds(const Pipeline& pipeline) {
  if (pipeline.microbatches < 1 || pipeline.chunks < 1 || pipeline.stages() < 1)
    throw_error("a pipeline of {} stages, {} chunks and {} microbatches; 1 or more of each expected",
                pipeline.stages(), pipeline.chunks, pipeline.microbatches);
  if (pipeline.order.size() != pipeline.holds.size())
    throw_error("{} stages hold chunks, but {} have turns", pipeline.holds.size(), pipeline.order.size());
  std::vector<int> held(static_cast<size_t>(pipeline.chunks));
  for (int stage = 0; stage < pipeline.stages(); ++stage) {
    const std::vector<int>& chunks = pipeline.holds[stage];
    for (const int chunk : chunks) {
      if (chunk < 0 || chunk >= pipeline.chunks)
        throw_error("stage {} holds chunk {}, but there are {}", stage, chunk, pipeline.chunks);
      if (std::ranges::count(chunks, chunk) > 1) throw_error("stage {} holds chunk {} twice", stage, chunk);
      ++held[chunk];
    }
  }
  if (const auto none = std::ranges::find(held, 0); none != held.end())
    throw_error("no stage holds chunk {}", none - held.begin());
}

// Of the schedule as it is given: what unrolling it relies on.
void check_numbers(const Pipeline& pipeline) {
  const bool may_run_ahead = has_phase(pipeline, Phase::kUpdate);
  for (int stage = 0; stage < pipeline.stages(); ++stage) {
    const std::vector<int>& chunks = pipeline.holds[stage];
    for (const ChunkTurn& turn : pipeline.order[stage]) {
      if (std::ranges::find(chunks, turn.chunk) == chunks.end())
        throw_error("stage {} does {}, but it holds chunk {} only", stage, to_string(turn),
                    fmt::join(chunks, ", "));
      if (turn.microbatch < 0 || (turn.microbatch >= pipeline.microbatches && !may_run_ahead))
        throw_error("stage {} does {}, but a step has {} microbatches", stage, to_string(turn),
                    pipeline.microbatches);
    }
  }
}

void check_once(const Pipeline& pipeline, const TurnPlaces& places) {
  for (int stage = 0; stage < pipeline.stages(); ++stage) {
    const std::vector<ChunkTurn>& order = pipeline.order[stage];
    for (size_t i = 0; i < order.size(); ++i) {
      // Of a turn that is there twice, `places` knows the later one.
      const TurnPlaces::Place& place = places.of(order[i]);
      if (place.stage != stage)
        throw_error("stages {} and {} both do {}", stage, place.stage, to_string(order[i]));
      if (place.index != i) throw_error("stage {} does {} twice", stage, to_string(order[i]));
    }
  }
}

void check_phases(const Pipeline& pipeline, const TurnPlaces& places) {
  std::vector<Phase> phases = {Phase::kForward, Phase::kBackward};
  if (has_phase(pipeline, Phase::kWeight)) phases.push_back(Phase::kWeight);
  for (int chunk = 0; chunk < pipeline.chunks; ++chunk) {
    for (int64_t microbatch = 0; microbatch < pipeline.microbatches; ++microbatch) {
      for (size_t i = 0; i < phases.size(); ++i) {
        const ChunkTurn turn{phases[i], chunk, microbatch};
        const TurnPlaces::Place& place = places.of(turn);
        if (place.stage < 0) throw_error("no stage does {}", to_string(turn));
        if (i == 0) continue;
        const TurnPlaces::Place& before = places.of({phases[i - 1], chunk, microbatch});
        if (place.stage != before.stage)
          throw_error("stage {} does {}, but what its {} kept is on stage {}", place.stage, to_string(turn),
                      name(phases[i - 1]), before.stage);
        if (place.index < before.index)
          throw_error("stage {} does {} before its {}", place.stage, to_string(turn), name(phases[i - 1]));
      }
    }
  }
}

void check_ascending(const Pipeline& pipeline) {
  for (int stage = 0; stage < pipeline.stages(); ++stage) {
    std::vector<int64_t> last(static_cast<size_t>(4 * pipeline.chunks), -1);
    for (const ChunkTurn& turn : pipeline.order[stage]) {
      int64_t& before = last[static_cast<int>(turn.phase) * pipeline.chunks + turn.chunk];
      if (turn.microbatch < before)
        throw_error("stage {} does {} after microbatch {}; microbatches of a chunk ascend in every phase",
                    stage, to_string(turn), before);
      before = turn.microbatch;
    }
  }
}

// From stage to stage, until one comes again.
[[noreturn]] void refuse_circle(const Pipeline& pipeline, const TurnPlaces& places,
                                const std::vector<size_t>& at) {
  const auto waits = [&](int stage) { return at[stage] < pipeline.order[stage].size(); };
  int stage = 0;
  while (!waits(stage)) ++stage;
  std::string text;
  for (std::vector<int> seen; std::ranges::find(seen, stage) == seen.end();) {
    seen.push_back(stage);
    const ChunkTurn& turn = pipeline.order[stage][at[stage]];
    const auto needed = waits_for(pipeline, turn);
    const int from = needed ? places.of(*needed).stage : stage;
    text += fmt::format("{}stage {} can not do {} before stage {} does {}", text.empty() ? "" : ", ", stage,
                        to_string(turn), from, needed ? to_string(*needed) : "nothing");
    stage = from;
  }
  throw_error("the stages wait for each other: {}", text);
}

int64_t buffers_needed(const Pipeline& pipeline, const TurnPlaces& places) {
  const auto ignore = [](int, const ChunkTurn&) {};
  const auto stuck = [&](const std::vector<size_t>& at) {
    for (size_t stage = 0; stage < at.size(); ++stage) {
      if (at[stage] < pipeline.order[stage].size()) return true;
    }
    return false;
  };
  if (const auto at = play(pipeline, places, kUnbounded, ignore); stuck(at))
    refuse_circle(pipeline, places, at);
  int64_t buffers = 1;
  while (stuck(play(pipeline, places, buffers, ignore))) ++buffers;
  return buffers;
}

// Of one chunk on one stage: the most versions of its weights that it keeps at a time.
int64_t check_versions(const Pipeline& pipeline, int stage, int chunk) {
  const bool updated = has_phase(pipeline, Phase::kUpdate), split = has_phase(pipeline, Phase::kWeight);
  std::vector<ChunkTurn> turns;
  std::ranges::copy_if(pipeline.order[stage], std::back_inserter(turns),
                       [&](const ChunkTurn& turn) { return turn.chunk == chunk; });
  std::vector<int64_t> oldest(turns.size() + 1,
                              std::numeric_limits<int64_t>::max());  // that is read from here on
  for (size_t i = turns.size(); i-- > 0;)
    oldest[i] = turns[i].phase == Phase::kUpdate ? oldest[i + 1] : std::min(oldest[i + 1], turns[i].version);
  std::vector<int64_t> read(static_cast<size_t>(pipeline.microbatches));  // by the forward pass
  int64_t newest = 0, most = 1;
  int64_t computed = -1,
          taken = -1;  // the last microbatch with a gradient, and the last that was in an update
  for (size_t i = 0; i < turns.size(); ++i) {
    const ChunkTurn& turn = turns[i];
    if (turn.phase == Phase::kUpdate) {
      if (computed != turn.microbatch)
        throw_error("stage {} does {} when it has the gradients up to microbatch {}", stage, to_string(turn),
                    computed);
      if (turn.version != ++newest)
        throw_error("stage {} does {} as version {}; {} expected", stage, to_string(turn), turn.version,
                    newest);
      taken = turn.microbatch;
    } else {
      int64_t& first = read[turn.microbatch];
      if (turn.version > newest || turn.version < 0)
        throw_error("stage {} does {} with version {} of the weights, but {} is the newest", stage,
                    to_string(turn), turn.version, newest);
      if (turn.phase == Phase::kForward) first = turn.version;
      if (turn.version != first)
        throw_error("stage {} does {} with version {} of the weights, its forward with version {}", stage,
                    to_string(turn), turn.version, first);
      if (turn.phase == (split ? Phase::kWeight : Phase::kBackward)) computed = turn.microbatch;
    }
    if (oldest[i + 1] <= newest) most = std::max(most, newest - oldest[i + 1] + 1);
  }
  if (updated && taken != computed)
    throw_error("stage {} has gradients of chunk {} up to microbatch {}, but {}", stage, chunk, computed,
                taken < 0 ? "never updates it" : fmt::format("updates it up to microbatch {} only", taken));
  return most;
}

void count_live(const Pipeline& pipeline, PipelineProof& proof) {
  const Phase last = has_phase(pipeline, Phase::kWeight) ? Phase::kWeight : Phase::kBackward;
  for (size_t stage = 0; stage < pipeline.order.size(); ++stage) {
    std::vector<int64_t> now(static_cast<size_t>(pipeline.chunks)), most = now;
    int64_t all = 0, most_of_all = 0;
    for (const ChunkTurn& turn : pipeline.order[stage]) {
      const int change = turn.phase == Phase::kForward ? 1 : turn.phase == last ? -1 : 0;
      int64_t& of_chunk = most[turn.chunk];
      of_chunk = std::max(of_chunk, now[turn.chunk] += change);
      most_of_all = std::max(most_of_all, all += change);
    }
    proof.live.push_back(most_of_all);
    std::vector<int64_t>& slots = proof.slots.emplace_back();
    for (const int chunk : pipeline.holds[stage]) slots.push_back(most[chunk]);
  }
}

// An asynchronous schedule over so many steps that all it does together is seen.
Pipeline whole(const Pipeline& pipeline) {
  if (!has_phase(pipeline, Phase::kUpdate)) return pipeline;
  int64_t last = 0;
  for (const std::vector<ChunkTurn>& order : pipeline.order) {
    for (const ChunkTurn& turn : order) last = std::max(last, turn.microbatch);
  }
  return unroll(pipeline, 3 + last / pipeline.microbatches);
}

}  // namespace

PipelineProof verify(const Pipeline& pipeline) {
  check_holds(pipeline);
  check_numbers(pipeline);
  const Pipeline all = whole(pipeline);
  const TurnPlaces places(all);
  check_once(all, places);
  check_phases(all, places);
  check_ascending(all);
  PipelineProof proof{.buffers = buffers_needed(all, places)};
  count_live(all, proof);
  for (int stage = 0; stage < all.stages(); ++stage) {
    int64_t& versions = proof.versions.emplace_back(1);
    for (const int chunk : all.holds[stage]) versions = std::max(versions, check_versions(all, stage, chunk));
  }
  return proof;
}

std::vector<std::vector<LiveMoment>> live_moments(const Pipeline& pipeline) {
  const bool apart = has_phase(pipeline, Phase::kWeight);
  std::vector<std::vector<LiveMoment>> result;
  for (int stage = 0; stage < pipeline.stages(); ++stage) {
    const std::vector<int>& chunks = pipeline.holds[stage];
    LiveMoment now{std::vector<int64_t>(chunks.size()), std::vector<int64_t>(chunks.size())};
    std::set<LiveMoment> seen;
    for (const ChunkTurn& turn : pipeline.order[stage]) {
      const size_t chunk = std::ranges::find(chunks, turn.chunk) - chunks.begin();
      if (turn.phase == Phase::kForward) ++now.before_backward[chunk];
      if (turn.phase == Phase::kBackward) {
        --now.before_backward[chunk];
        if (apart) ++now.before_weight[chunk];
      }
      if (turn.phase == Phase::kWeight) --now.before_weight[chunk];
      seen.insert(now);
    }
    result.emplace_back(seen.begin(), seen.end());
  }
  return result;
}

}  // namespace trireme
