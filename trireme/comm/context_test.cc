#include "trireme/comm/context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "trireme/base/error.h"
#include "trireme/comm/launch/transport_choice.h"

namespace trireme::comm {
namespace {

using testing::HasSubstr;

TEST(Context, WorldAndGroups) {
  run_rank_threads(4, [](Context& context) {
    Group world = context.world();
    const std::vector<int> members =
        context.rank() % 2 == 0 ? std::vector<int>{2, 0} : std::vector<int>{1, 3};
    Group half = context.group("half", members);
    double value = context.rank();
    half.all_reduce(&value, 1, DType::f64, ReduceOp::sum).wait();
    EXPECT_EQ(value, context.rank() % 2 == 0 ? 2 : 4);
    EXPECT_EQ(half.rank(), context.rank() == 2 || context.rank() == 1 ? 0 : 1);
    world.all_reduce(&value, 1, DType::f64, ReduceOp::sum).wait();
    EXPECT_EQ(value, 12);
    Group again = context.world();  // apart from the first
    again.barrier().wait();
  });
}

TEST(Context, NoRanksAreAnError) {
  for (const int ranks : {0, -1}) {
    EXPECT_THAT(error_of([&] { run_rank_threads(ranks, [](Context&) {}); }),
                HasSubstr(fmt::format("a job of {} ranks; 1 or more expected", ranks)));
  }
}

TEST(Context, ALauncherDoesNotJoinItsRanks) {
  LaunchEnvironment environment;
  environment.ranks = 4;
  environment.starts_ranks = true;
  EXPECT_THAT(error_of([&] { join(environment, {}); }), HasSubstr("this process is to start 4 of them"));
}

TEST(Context, RecordsOperationsOfAllGroups) {
  run_rank_threads(2, [](Context& context) {
    Group world = context.world();
    world.barrier().wait();
    context.group("data", {0, 1}).barrier().wait();
    float value = 0;
    (context.rank() == 0 ? world.send(&value, 1, DType::f32, 1) : world.receive(&value, 1, DType::f32, 0))
        .wait();
    world.barrier().wait();
    const std::string table = context.recorder().table();
    EXPECT_THAT(table, HasSubstr("world"));
    EXPECT_THAT(table, HasSubstr("data"));
    EXPECT_THAT(table,
                testing::Not(HasSubstr("0x")));  // no group without its name, that of the message neither
  });
}

TEST(Context, SummarySaysWhatWasChosen) {
  run_rank_threads(3, [](Context& context) {
    EXPECT_EQ(context.summary(), "3 ranks on 1 host, transport inproc, launched by this process, as threads");
  });
  EXPECT_EQ(join(LaunchEnvironment{.launched_by = "no launcher"}, {}).summary(),
            "1 rank on 1 host, transport inproc, launched by no launcher");
}

TEST(Context, ErrorsNameTheRank) {
  try {
    run_rank_threads(3, [](Context& context) {
      if (context.rank() == 1) throw_error("no more");
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 1: no more");
  }
}

TEST(Context, NonMembersAreRefused) {
  EXPECT_THROW(run_rank_threads(2, [](Context& context) { context.group("far", {0, 1, 7}); }), Error);
}

TEST(TransportChoice, FastestThatReachesAll) {
  EXPECT_EQ(choose_transport({.ranks = 1}), TransportKind::inproc);
  EXPECT_EQ(choose_transport({.ranks = 4}), TransportKind::shm);
  EXPECT_EQ(choose_transport({.ranks = 4, .under_mpi = true}), TransportKind::shm);
  EXPECT_EQ(choose_transport({.ranks = 4, .hosts = 2, .under_mpi = true}), TransportKind::mpi);
  EXPECT_EQ(choose_transport({.ranks = 4, .hosts = 2}), TransportKind::tcp);
  EXPECT_EQ(choose_transport({.ranks = 100}), TransportKind::tcp);
  EXPECT_EQ(choose_transport({.wanted = "tcp", .ranks = 4}), TransportKind::tcp);
}

std::string refusal(const TransportQuestion& question) {
  try {
    choose_transport(question);
    return "accepted";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(TransportChoice, RefusesWithTheReason) {
  EXPECT_THAT(refusal({.wanted = "shm", .ranks = 4, .hosts = 2}), HasSubstr("on 2 hosts; use tcp"));
  EXPECT_THAT(refusal({.wanted = "shm", .ranks = 65}), HasSubstr("up to 64 ranks"));
  EXPECT_THAT(refusal({.wanted = "mpi", .ranks = 4, .launched_by = "trireme -n"}),
              HasSubstr("launched by trireme -n"));
  EXPECT_THAT(refusal({.wanted = "tcp", .ranks = 4, .hosts = 2, .under_mpi = true}),
              HasSubstr("--transport mpi"));
  EXPECT_THAT(refusal({.wanted = "nccl", .ranks = 2}), HasSubstr("`trireme bench train` alone"));
  EXPECT_THAT(refusal({.wanted = "shmem"}), HasSubstr("known are shm, tcp, mpi"));
}

}  // namespace
}  // namespace trireme::comm
