// A changed number on one rank is found along whichever axis it should have been the same, and named.
#include "trireme/run/replica_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "trireme/models/random_batch.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

// What each rank says after two steps, when `state` of one of them was changed in a bit of this byte.
std::vector<std::string> complaints(const char* mesh, const char* preset, int changed, const char* state,
                                    size_t place = 5, int64_t vocab = 20) {
  ModelOptions model;
  model.layers = 1;
  model.heads = 2;
  model.hidden = 16;
  model.vocab = vocab;
  model.seq = 8;
  const Plan plan{.mesh = parse_mesh(mesh), .preset = preset};
  std::vector<std::string> said(plan.mesh.ranks());
  comm::run_rank_threads(plan.mesh.ranks(), [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context);
    const RankOptions ranks{plan, context.rank(), &communicator};
    const std::unique_ptr<Device> device = make_cpu_device(1);
    Trainer trainer(model, {}, {}, {4, {8}}, *device, ranks);
    trainer.initialise(1);
    ReplicaCheck check(trainer, ranks);
    check.compare(0);
    Batch batch = random_batch(model, {8}, 4, /*seed=*/1);
    for (int64_t step = 0; step < 2; ++step) trainer.step(batch, step, 1e-2);
    check.compare(2);
    if (context.rank() == changed) {
      uint8_t byte = 0;
      trainer.executor().read_state(state, place, &byte, 1);
      byte ^= 1;
      trainer.executor().write_state(state, place, &byte, 1);
    }
    said[static_cast<size_t>(context.rank())] = error_of([&] { check.compare(2); });
  });
  return said;
}

TEST(ReplicaCheck, NamesTensorAndRanks) {
  std::vector<std::string> said = complaints("data:3", "data", 1, "h.0.mlp.c_fc.weight");
  EXPECT_THAT(said[0], AllOf(HasSubstr("do not, after step 2: h.0.mlp.c_fc.weight (XXH64 "),
                             HasSubstr(" on ranks 0 and 2"), HasSubstr(" on rank 1")));
  EXPECT_THAT(said[0], Not(HasSubstr("); "))) << "no other tensor";
  EXPECT_THAT(said[1], HasSubstr("rank 0 says where"));
  EXPECT_THAT(said[2], HasSubstr("rank 0 says where"));
}

TEST(ReplicaCheck, LooksAlongEveryAxisThatDoesNotSplit) {
  // Replicated over both axes.
  EXPECT_THAT(complaints("data:2 tensor:2", "megatron", 2, "ln_f.weight")[0],
              AllOf(HasSubstr("ln_f.weight"), HasSubstr("on ranks 0, 1 and 3"), HasSubstr("on rank 2")));
  // Split over tensor: ranks 1 and 3 have the same part.
  EXPECT_THAT(complaints("data:2 tensor:2", "megatron", 3, "h.0.mlp.c_fc.weight")[0],
              AllOf(HasSubstr("h.0.mlp.c_fc.weight"), HasSubstr("on rank 1"), HasSubstr("on rank 3"),
                    Not(HasSubstr("ranks 0"))));
  EXPECT_THAT(complaints("tensor:2 data:2", "megatron", 1, "m.h.0.mlp.c_fc.weight")[0],
              AllOf(HasSubstr("m.h.0.mlp.c_fc.weight"), HasSubstr("on rank 0"), HasSubstr("on rank 1")));
}

TEST(ReplicaCheck, WhatOneRankAloneHasIsNotCompared) {
  EXPECT_THAT(complaints("data:2", "zero1", 1, "m.h.0.mlp.c_fc.weight"), Each("no error"));
  // Frozen weights would be; of one microbatch all others are split.
  EXPECT_THAT(complaints("data:2", "zero1", 1, "h.0.mlp.c_fc.weight"), Each("no error"));
  EXPECT_THAT(complaints("data:2", "data", 1, "m.h.0.mlp.c_fc.weight")[0], HasSubstr("h.0.mlp.c_fc.weight"));
}

// States are read a MiB at a time; this one has 2.4 of them.
TEST(ReplicaCheck, LooksAtAllOfALargeTensor) {
  constexpr int64_t kVocab = 40000;
  for (const size_t place : {size_t{1} << 20, size_t{2000000}, size_t{kVocab} * 16 * 4 - 1})
    EXPECT_THAT(complaints("data:2", "data", 1, "wte.weight", place, kVocab)[0], HasSubstr("wte.weight"))
        << place;
}

}  // namespace
}  // namespace trireme
