// ZB-V (Qi et al. 2023): stage i has the chunks i and 2p − 1 − i, so that the model goes down the stages and
// up again, a V, and a microbatch's first gradient is made where its forward began. In units of a turn,
// microbatch 0 is at stage i at i, on its way up at 2p − 1 − i, and back at 2p + i. Until it comes up there
// is time for 2(p − i) − 1 forwards down; until its gradient comes, for i more of both chunks in turn. Then
// 2p stashes are there, as many as 1F1B's on its first stage, and forward, backward and weight go round. At
// the end weights' turns wait where others need a gradient, and fill what is left. No bubble for equal times
// and m ≥ 2p − 1; as with zb_h2, stages begin and end one after the other.
#include <algorithm>

#include "trireme/schedule/pipeline_schedules.h"

namespace trireme {
namespace {

// A stage's turns. A phase of a chunk takes its next microbatch; where it has had all that it can, nothing is
// added.
class Turns {
 public:
  Turns(int down, int up, int64_t microbatches) : chunks_{down, up}, microbatches_(microbatches) {}

  enum Way { kDown, kUp };
  int64_t done(Phase phase, Way way) const { return done_[way][static_cast<int>(phase)]; }
  void add(Way way, std::initializer_list<Phase> phases) {
    for (const Phase phase : phases) {
      int64_t& next = done_[way][static_cast<int>(phase)];
      const int64_t end = phase == Phase::kForward    ? microbatches_
                          : phase == Phase::kBackward ? done(Phase::kForward, way)
                                                      : done(Phase::kBackward, way);
      if (next < end) turns_.push_back({phase, chunks_[way], next++});
    }
  }
  std::vector<ChunkTurn> take() { return std::move(turns_); }

 private:
  int chunks_[2];
  int64_t microbatches_;
  int64_t done_[2][3] = {};
  std::vector<ChunkTurn> turns_;
};

}  // namespace

Pipeline zb_v(const PipelineShape& shape) {
  using enum Phase;
  const auto [p, m, _, versions] = shape;
  Pipeline pipeline{m, 2 * p, {}, {}};
  for (int i = 0; i < p; ++i) {
    pipeline.holds.push_back({i, 2 * p - 1 - i});
    Turns turns(i, 2 * p - 1 - i, m);
    const auto repeat = [&](int64_t times, const auto& body) {
      for (int64_t k = 0; k < times; ++k) body();
    };
    repeat(2 * (p - i) - 1, [&] { turns.add(Turns::kDown, {kForward}); });
    repeat(i, [&] {
      turns.add(Turns::kUp, {kForward});
      turns.add(Turns::kDown, {kForward});
    });
    repeat(p - i, [&] { turns.add(Turns::kUp, {kForward, kBackward, kWeight}); });
    while (turns.done(kForward, Turns::kUp) < m) {
      turns.add(Turns::kDown, {kForward, kBackward, kWeight});
      turns.add(Turns::kUp, {kForward, kBackward, kWeight});
    }
    repeat(i, [&] {
      turns.add(Turns::kDown, {kBackward});
      turns.add(Turns::kUp, {kBackward});
    });
    repeat(p - i, [&] { turns.add(Turns::kDown, {kBackward, kWeight}); });
    repeat(m, [&] { turns.add(Turns::kUp, {kWeight}); });
    repeat(m, [&] { turns.add(Turns::kDown, {kWeight}); });
    pipeline.order.push_back(turns.take());
  }
  return pipeline;
}

}  // namespace trireme
