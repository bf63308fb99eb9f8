// Memory of stashes in Programs against what the papers on schedules say: relative to 1F1B, of a model whose
// layers take nearly all of it.
#include <gtest/gtest.h>

#include <set>

#include "tests/support/error_of.h"
#include "trireme/program/verify.h"
#include "trireme/schedule/pipeline_table.h"
#include "trireme/sim/simulate.h"
#include "trireme/train/step_programs.h"

namespace trireme::sim {
namespace {

// The Programs of all stages, verified together: nobody waits for ever for memory that another stage frees.
std::vector<Program> programs_of(const std::string& keys, int layers, int stages, int64_t microbatches) {
  ModelOptions model;
  model.layers = layers;
  model.heads = 2;
  model.hidden = 64;
  model.vocab = 16;
  model.seq = 16;
  TrainOptions train;
  train.batch = train.accumulate = microbatches;
  const Plan plan = parse_plan(fmt::format(R"({{"mesh": "pipe:{}", {}}})", stages, keys), "test");
  const StepPrograms programs(model, train, {}, {1, {16}}, plan);
  std::vector<Program> ranks;
  for (int rank = 0; rank < stages; ++rank) ranks.push_back(programs.rank(rank, nullptr));
  verify(ranks);
  return ranks;
}

constexpr int kStages = 8;
constexpr int64_t kMicrobatches = 32;

// Of the stage that has most.
double stash_bytes_of(const std::string& schedule, int chunks) {
  size_t most = 0;
  const std::string keys = fmt::format(R"("schedule": "{}", "chunks": {})", schedule, chunks);
  for (const Program& program : programs_of(keys, 32, kStages, kMicrobatches))
    most = std::max(most, state_bytes_by_role(program).at(Role::kStash));
  return static_cast<double>(most);
}

struct Form {
  const char* schedule;
  int chunks;         // of a stage
  double of_one_f1b;  // as published
};

TEST(StashForms, AreThoseOfThePapers) {
  constexpr double p = kStages, m = kMicrobatches;
  const double one_f1b = stash_bytes_of("1f1b", 1);
  std::set<std::string_view> seen = {"1f1b"};
  for (const Form& form : {Form{"gpipe", 1, m / p}, Form{"interleaved", 2, 1 + (p - 1) / (2 * p)},
                           Form{"interleaved", 4, 1 + (p - 1) / (4 * p)}, Form{"chimera", 1, 1},
                           Form{"zb_h1", 1, 1}, Form{"zb_h2", 1, (2 * p - 1) / p}, Form{"zb_v", 2, 1}}) {
    const double found = stash_bytes_of(form.schedule, form.chunks) / one_f1b;
    EXPECT_NEAR(found / form.of_one_f1b, 1, 0.05) << form.schedule << " with " << form.chunks << " chunks";
    seen.insert(form.schedule);
  }
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    const bool in_steps = schedule.updates == PipelineSchedule::Updates::kAfterStep;
    EXPECT_EQ(seen.contains(schedule.name), in_steps) << schedule.name;
  }
}

// A send frees its memory when the other side asks for the message. A stage that waited for that before it
// took something else could keep the other side from ever asking.
TEST(StashForms, NoScheduleWaitsForEver) {
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    // Stashes of asynchronous schedules have slots of their own.
    if (schedule.updates == PipelineSchedule::Updates::kBetweenTurns) continue;
    for (int stages = 2; stages <= 4; ++stages) {
      for (const int64_t microbatches : {stages, 2 * stages}) {
        for (const char* recompute : {"none", "full"}) {
          const int chunks = schedule.needs.least_chunks;
          if (!refusal(schedule, {stages, microbatches, chunks}).empty()) continue;
          const std::string keys =
              fmt::format(R"("schedule": "{}", "recompute": "{}")", schedule.name, recompute);
          EXPECT_EQ(error_of([&] { programs_of(keys, 8, stages, microbatches); }), "no error")
              << keys << " with " << stages << " stages and " << microbatches << " microbatches";
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme::sim
