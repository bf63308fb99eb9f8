// Times of a pipeline's turns: by hand, against the formulas of the papers, and against their printed
// numbers.
#include "trireme/schedule/timeline.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/pipelines.h"
#include "trireme/base/error.h"
#include "trireme/schedule/pipeline_table.h"
#include "trireme/schedule/verify_pipeline.h"

namespace trireme {
namespace {

// In units of a chunk's time; exact as long as times are whole numbers.
double idle(const Pipeline& pipeline, const ChunkTimes& times) {
  const Timeline line = timeline(pipeline, {.chunks = {times}});
  const double work = static_cast<double>(pipeline.microbatches * pipeline.chunks / pipeline.stages()) *
                      (times.forward + times.backward + times.weight);
  EXPECT_EQ(line.bubble, (line.step - work) / line.step);
  return line.step - work;
}

TEST(Timeline, OfOneForwardOneBackwardByHand) {
  const Timeline line = timeline(make("1f1b", 2, 2), {.chunks = {{2, 3, 1}}, .message = 0.5});
  const auto times = [&](int stage) {
    std::string text;
    for (const TimedTurn& turn : line.stages[stage])
      text += fmt::format("{}{} {}-{} ({}) ", name(turn.turn.phase)[0], turn.turn.microbatch, turn.start,
                          turn.end, turn.live);
    return text;
  };
  EXPECT_EQ(times(0), "f0 0-2 (1) f1 2-4 (2) b0 9-13 (2) b1 15-19 (1) ");
  EXPECT_EQ(times(1), "f0 2.5-4.5 (1) b0 4.5-8.5 (1) f1 8.5-10.5 (1) b1 10.5-14.5 (1) ");
  EXPECT_EQ(line.end, 19);
  EXPECT_EQ(line.step, 19);
  EXPECT_EQ(line.bubble, 7 / 19.0);
}

TEST(Timeline, ChunksMayDiffer) {
  const Pipeline pipeline = make("gpipe", 2, 1);
  EXPECT_EQ(timeline(pipeline, {.chunks = {{1, 1, 1}, {2, 5, 3}}}).end, 1 + 2 + 8 + 2);
  EXPECT_THROW(timeline(pipeline, {.chunks = {{}, {}, {}}}), Error);
  Pipeline stuck = pipeline;
  std::swap(stuck.order[0][0], stuck.order[0][1]);
  EXPECT_THROW(timeline(stuck, {}), Error);
}

// p stages, m microbatches, F, B, W the times of the phases. Bubbles are given as idle time of a step.
class Formulas : public testing::Test {
 protected:
  template <typename Check>
  static void for_all(Check check) {
    for (int p = 1; p <= 16; ++p) {
      for (int64_t m = 1; m <= 64; ++m) {
        SCOPED_TRACE(fmt::format("{} stages, {} microbatches", p, m));
        check(p, m);
      }
    }
  }
};

// Bubble (p − 1)(F + B + W), the fraction (p − 1) / (m + p − 1) of the step, for any m and any times.
// Stashes: m at every stage for GPipe, min(p − i, m) at stage i for 1F1B.
TEST_F(Formulas, GpipeAndOneForwardOneBackward) {
  for_all([](int p, int64_t m) {
    for (const std::string_view name : {"gpipe", "1f1b"}) {
      const Pipeline pipeline = make(name, p, m);
      EXPECT_EQ(idle(pipeline, {1, 1, 1}), 3 * (p - 1)) << name;
      EXPECT_EQ(idle(pipeline, {3, 4, 2}), 9 * (p - 1)) << name;
      EXPECT_EQ(timeline(pipeline, {}).bubble, (p - 1) / static_cast<double>(m + p - 1)) << name;
      const PipelineProof proof = verify(pipeline);
      for (int i = 0; i < p; ++i)
        EXPECT_EQ(proof.live[i], name == "gpipe" ? m : std::min<int64_t>(p - i, m)) << name;
    }
  });
}

// Bubble (p − 1)(F + B + W) / v, of a stage's times: (p − 1) / (v·m) of the work. Stashes of chunks: at the
// first stage (1 + (p − 1) / (p·v)) times 1F1B's p·v, that is p·v + p − 1; each stage behind it two fewer; no
// more than there are.
TEST_F(Formulas, Interleaved) {
  for_all([](int p, int64_t m) {
    for (int v = 2; v <= 4 && m % p == 0; ++v) {
      const Pipeline pipeline = make("interleaved", p, m, v);
      EXPECT_EQ(idle(pipeline, {1, 1, 1}), 3 * (p - 1)) << v;
      EXPECT_EQ(idle(pipeline, {3, 4, 2}), 9 * (p - 1)) << v;
      const PipelineProof proof = verify(pipeline);
      for (int i = 0; i < p; ++i)
        EXPECT_EQ(proof.live[i], std::min<int64_t>(p * v + p - 1 - 2 * i, m * v)) << v;
    }
  });
}

// Fraction (p − 2) / (2m + p − 2) where a backward takes as long as a forward, for m a multiple of p; where
// it takes twice as long, (p − 2) / (3m/2 + p − 2) for m = p. Stashes: of the one direction min(p/2, p − i),
// of the other min(p/2, i + 1), from p/2 + 1 at the ends to p in the middle.
TEST_F(Formulas, Chimera) {
  for_all([](int p, int64_t m) {
    if (p % 2 != 0 || m % p != 0) return;
    const Pipeline pipeline = make("chimera", p, m);
    EXPECT_EQ(idle(pipeline, {1, 1, 0}), p - 2);
    EXPECT_EQ(timeline(pipeline, {.chunks = {{1, 1, 0}}}).bubble,
              (p - 2) / static_cast<double>(2 * m + p - 2));
    if (m == p) {
      EXPECT_EQ(idle(pipeline, {1, 1, 1}), 2 * (p - 2));
      EXPECT_EQ(timeline(pipeline, {}).bubble, (p - 2) / (1.5 * static_cast<double>(m) + p - 2));
    }
    const PipelineProof proof = verify(pipeline);
    for (int i = 0; i < p; ++i) EXPECT_EQ(proof.live[i], std::min(p / 2, p - i) + std::min(p / 2, i + 1));
  });
}

// Bubble (p − 1)(F + B − W) for m ≥ p; stashes min(p, m) at every stage, as 1F1B has at its first.
TEST_F(Formulas, ZbH1) {
  for_all([](int p, int64_t m) {
    const Pipeline pipeline = make("zb_h1", p, m);
    if (m >= p) {
      EXPECT_EQ(idle(pipeline, {1, 1, 1}), p - 1);
      EXPECT_EQ(idle(pipeline, {3, 4, 2}), 5 * (p - 1));
    }
    for (const int64_t live : verify(pipeline).live) EXPECT_EQ(live, std::min<int64_t>(p, m));
  });
}

// Bubble (p − 1)(F + B − 2W) for m ≥ 2p − 1; stashes min(2p − 1, m) at every stage.
TEST_F(Formulas, ZbH2) {
  for_all([](int p, int64_t m) {
    const Pipeline pipeline = make("zb_h2", p, m);
    if (m >= 2 * p - 1) {
      EXPECT_EQ(idle(pipeline, {1, 1, 1}), 0);
      EXPECT_EQ(idle(pipeline, {3, 4, 2}), 3 * (p - 1));
    }
    for (const int64_t live : verify(pipeline).live) EXPECT_EQ(live, std::min<int64_t>(2 * p - 1, m));
  });
}

// No bubble where F = B = W and m ≥ 2p − 1; stashes 2p of chunks, p of a stage, at every stage: 1F1B's at its
// first.
TEST_F(Formulas, ZbV) {
  for_all([](int p, int64_t m) {
    const Pipeline pipeline = make("zb_v", p, m);
    const PipelineProof proof = verify(pipeline);
    if (m >= 2 * p - 1) {
      EXPECT_EQ(idle(pipeline, {1, 1, 1}), 0);
      EXPECT_THAT(proof.live, testing::Each(2 * p));
      // A chunk's stashes are most at another time than its sister's: slots for each are one more.
      for (int i = 0; i < p && m >= 2 * p; ++i)
        EXPECT_THAT(proof.slots[i], testing::ElementsAre(2 * p - i, i + 1));
    } else {
      EXPECT_THAT(proof.live, testing::Each(testing::Le(2 * p)));
    }
  });
}

// No steps are drained: from one step to the next it takes the work of a step. PipeDream keeps p − i versions
// of stage i's weights (p − i + 1 where stages are counted from 1), with vertical sync p; 2BW keeps 2.
TEST_F(Formulas, Asynchronous) {
  for_all([](int p, int64_t m) {
    if (m > 8 && m % 8 != 0) return;  // fewer, for the time
    const auto step = [&](const Pipeline& pipeline) {
      const int64_t filled = 2 + p / m;
      return timeline(unroll(pipeline, filled + 1), {}).end - timeline(unroll(pipeline, filled), {}).end;
    };
    const Pipeline stashing = make("pipedream", p, m);
    EXPECT_EQ(step(stashing), 3 * m);
    const PipelineProof proof = verify(stashing);
    for (int i = 0; i < p; ++i) EXPECT_EQ(proof.versions[i], p - i);
    for (int i = 0; i < p; ++i) EXPECT_EQ(proof.live[i], p - i);
    const Pipeline synchronised =
        make_pipeline(find_schedule("pipedream"),
                      {.stages = p, .microbatches = m, .versions = PipelineShape::Versions::kVerticalSync});
    EXPECT_EQ(step(synchronised), 3 * m);
    for (const int64_t versions : verify(synchronised).versions) EXPECT_EQ(versions, p);
    if (m < p) return;
    const Pipeline two = make("2bw", p, m);
    EXPECT_EQ(step(two), 3 * m);
    const PipelineProof two_proof = verify(two);
    EXPECT_THAT(two_proof.versions, testing::Each(2));
    EXPECT_EQ(two_proof.live, proof.live);
  });
}

// Qi et al. 2023, "Zero bubble pipeline parallelism": times in ms from table 9, bubble rates from table 5;
// the number of chunks a stage of 1F1B-I follows from the layers and stages of table 3.
struct Printed {
  int p;
  int64_t m;
  double forward, backward, weight, message;
  double one_forward_one_backward, interleaved, zb_h1, zb_h2;
  int v;
};
constexpr Printed kPrinted[] = {
    {8, 24, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1055, 0.1585, 0.1083, 3},
    {8, 32, 18.513, 18.086, 9.331, 0.626, 0.1985, 0.0818, 0.1242, 0.0837, 3},
    {8, 64, 18.546, 18.097, 9.321, 0.762, 0.1240, 0.0443, 0.0674, 0.0444, 3},
    {8, 24, 29.718, 29.444, 19.927, 0.527, 0.2347, 0.0808, 0.1323, 0.0698, 4},
    {8, 32, 29.802, 29.428, 19.530, 0.577, 0.1898, 0.0628, 0.1045, 0.0559, 4},
    {8, 64, 29.935, 29.621, 19.388, 0.535, 0.1091, 0.0320, 0.0554, 0.0294, 4},
    {16, 48, 11.347, 11.248, 8.132, 0.377, 0.2552, 0.1104, 0.1397, 0.0672, 3},
    {16, 64, 11.307, 11.254, 8.101, 0.379, 0.2082, 0.0852, 0.1088, 0.0516, 3},
    {16, 128, 11.325, 11.308, 8.109, 0.378, 0.1251, 0.0445, 0.0576, 0.0266, 3},
    {32, 96, 10.419, 10.207, 7.715, 0.408, 0.2646, 0.1493, 0.1421, 0.0641, 2},
    {32, 128, 10.408, 10.204, 7.703, 0.408, 0.2168, 0.1164, 0.1106, 0.0490, 2},
    {32, 256, 10.402, 10.248, 7.698, 0.460, 0.1352, 0.0624, 0.0594, 0.0257, 2},
};

TEST(Timeline, GivesTheBubbleRatesThatWerePrinted) {
  for (const Printed& row : kPrinted) {
    const auto bubble = [&](const Pipeline& pipeline) {
      return timeline(pipeline, {.chunks = {per_chunk({row.forward, row.backward, row.weight}, pipeline)},
                                 .message = row.message})
          .bubble;
    };
    SCOPED_TRACE(fmt::format("{} stages, {} microbatches", row.p, row.m));
    EXPECT_EQ(std::round(bubble(make("1f1b", row.p, row.m)) * 1e4) / 1e4, row.one_forward_one_backward);
    EXPECT_NEAR(bubble(make("interleaved", row.p, row.m, row.v)), row.interleaved, 0.004);
    EXPECT_NEAR(bubble(make("zb_h1", row.p, row.m)), row.zb_h1, 0.004);
    EXPECT_NEAR(bubble(make("zb_h2", row.p, row.m)), row.zb_h2, 0.004);
  }
}

}  // namespace
}  // namespace trireme
