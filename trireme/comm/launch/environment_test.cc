#include "trireme/comm/launch/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/error_of.h"
#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

using testing::HasSubstr;
using Map = std::map<std::string, std::string>;

LaunchEnvironment detect_in(const Map& map, const LaunchOptions& options = {}) {
  return detect(
      [&](const std::string& name) -> std::optional<std::string> {
        const auto found = map.find(name);
        if (found == map.end()) return std::nullopt;
        return found->second;
      },
      options);
}

std::string refusal_of_environment(const Map& map, const LaunchOptions& options = {}) {
  try {
    const LaunchEnvironment environment = detect_in(map, options);
    return "accepted: " + environment.launched_by;
  } catch (const Error& error) {
    return error.what();
  }
}

const Map kTorchrun = {{"RANK", "1"},
                       {"WORLD_SIZE", "4"},
                       {"LOCAL_RANK", "1"},
                       {"MASTER_ADDR", "10.0.0.1"},
                       {"MASTER_PORT", "29500"}};
const Map kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
const Map kSrun = {
    {"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"PMIX_RANK", "3"}};
const Map kLocal = {
    {"TRIREME_RANK", "0"},      {"TRIREME_RANKS", "2"},       {"TRIREME_RENDEZVOUS", "127.0.0.1:4000"},
    {"TRIREME_SECRET_FD", "7"}, {"TRIREME_RECORDER_FD", "8"}, {"TRIREME_LISTEN_FD", "9"}};

Map both(Map a, const Map& b) {
  a.insert(b.begin(), b.end());
  return a;
}

TEST(LaunchEnvironment, AloneWithoutAnything) {
  const LaunchEnvironment found = detect_in({{"PATH", "/bin"}, {"MASTER_ADDR", "left.by.a.login.script"}});
  EXPECT_EQ(found.launcher, Launcher::none);
  EXPECT_FALSE(found.starts_ranks);
  EXPECT_EQ(found.ranks, 1);
  EXPECT_EQ(found.launched_by, "no launcher");
}

TEST(LaunchEnvironment, StartsLocalRanks) {
  const LaunchEnvironment found = detect_in({}, {.ranks = 4});
  EXPECT_TRUE(found.starts_ranks);
  EXPECT_EQ(found.launcher, Launcher::local);
  EXPECT_EQ(found.ranks, 4);
}

TEST(LaunchEnvironment, LocalRankKnowsWhatItInherits) {
  const LaunchEnvironment found =
      detect_in(both(kLocal, kOpenMpi), {.ranks = 2, .launcher = Launcher::local});
  EXPECT_FALSE(found.starts_ranks);
  EXPECT_EQ(found.rank, 0);
  EXPECT_EQ(found.ranks, 2);
  EXPECT_EQ(found.address, "127.0.0.1:4000");
  EXPECT_EQ(found.inherited.secret, 7);
  EXPECT_EQ(found.inherited.recorder, 8);
  EXPECT_EQ(found.inherited.listener, 9);
}

TEST(LaunchEnvironment, RanksOfAnElasticJobMayBeFewer) {
  const LaunchOptions options{.ranks = 4, .elastic = parse_elastic("2:4")};
  EXPECT_EQ(detect_in({}, options).ranks, 4);
  auto started = kLocal;
  EXPECT_EQ(detect_in(started, options).ranks, 2);
  EXPECT_FALSE(detect_in(started, options).again);
  started["TRIREME_MEMORY"] = "/dev/shm/trireme-x";
  started["TRIREME_AGAIN_SINCE"] = "1700000000.125";
  started["TRIREME_AGAIN_BECAUSE"] = "rank 2 was killed";
  const LaunchEnvironment found = detect_in(started, options);
  EXPECT_EQ(found.memory, "/dev/shm/trireme-x");
  EXPECT_EQ(found.again->since, 1700000000.125);
  EXPECT_EQ(found.again->why, "rank 2 was killed");
}

TEST(LaunchEnvironment, TheFewestAndTheMostRanks) {
  EXPECT_EQ(parse_elastic("1:16").most, 16);
  for (const char* text : {"", "4", "4:", ":4", "2:4:8", "2-4", "two:4"})
    EXPECT_THAT(error_of([&] { parse_elastic(text); }), HasSubstr("expected two numbers, such as 2:4"))
        << text;
  for (const char* text : {"0:4", "4:4", "4:2"})
    EXPECT_THAT(error_of([&] { parse_elastic(text); }), HasSubstr("expected the fewest and the most"))
        << text;
  EXPECT_THAT(refusal_of_environment({}, {.ranks = 3, .elastic = parse_elastic("2:4")}),
              HasSubstr("but -n is 3"));
}

TEST(LaunchEnvironment, JoinsOpenMpiAndMpich) {
  const LaunchEnvironment open_mpi = detect_in(kOpenMpi);
  EXPECT_EQ(open_mpi.launcher, Launcher::mpi);
  EXPECT_EQ(open_mpi.rank, 2);
  EXPECT_EQ(open_mpi.ranks, 4);
  EXPECT_EQ(open_mpi.launched_by, "mpirun (Open MPI)");
  const LaunchEnvironment mpich = detect_in({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}});
  EXPECT_EQ(mpich.launcher, Launcher::mpi);
  EXPECT_EQ(mpich.rank, 1);
  EXPECT_EQ(mpich.launched_by, "mpirun (MPICH)");
}

TEST(LaunchEnvironment, JoinsTorchrun) {
  const LaunchEnvironment found = detect_in(kTorchrun);
  EXPECT_EQ(found.launcher, Launcher::torchrun);
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.ranks, 4);
  EXPECT_EQ(found.address, "10.0.0.1:29500");
  // torchrun itself listens at MASTER_PORT.
  EXPECT_EQ(detect_in(both(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})).address, "10.0.0.1:29501");
  Map six = kTorchrun;
  six["MASTER_ADDR"] = "fd00::1";
  EXPECT_EQ(detect_in(six).address, "[fd00::1]:29500");
}

TEST(LaunchEnvironment, JoinsSrunButNotABatchScript) {
  const LaunchEnvironment found = detect_in(kSrun);
  EXPECT_EQ(found.launcher, Launcher::slurm);
  EXPECT_EQ(found.rank, 3);
  EXPECT_EQ(found.ranks, 4);
  EXPECT_EQ(detect_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).launcher, Launcher::none);
  EXPECT_TRUE(detect_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}, {.ranks = 2}).starts_ranks);
}

TEST(LaunchEnvironment, SrunWithoutPmiNeedsAMeetingPlace) {
  const Map bare = {{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}};
  EXPECT_THAT(refusal_of_environment(bare), HasSubstr("--mpi=pmix"));
  EXPECT_THAT(refusal_of_environment(both(bare, {{"MASTER_ADDR", "node1"}})),
              HasSubstr("but not MASTER_PORT"));
  EXPECT_EQ(detect_in(both(bare, {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "4000"}})).address, "node1:4000");
}

TEST(LaunchEnvironment, InnermostWins) {
  EXPECT_EQ(detect_in(both(kTorchrun, kSrun)).launcher, Launcher::torchrun);
  EXPECT_EQ(detect_in(both(kOpenMpi, kSrun)).launcher, Launcher::mpi);
}

TEST(LaunchEnvironment, LauncherBeatsDetection) {
  EXPECT_EQ(detect_in(both(kTorchrun, kSrun), {.launcher = Launcher::slurm}).rank, 3);
  EXPECT_EQ(detect_in(kTorchrun, {.launcher = Launcher::none}).ranks, 1);
  EXPECT_TRUE(detect_in(kOpenMpi, {.ranks = 2, .launcher = Launcher::local}).starts_ranks);
  EXPECT_THAT(refusal_of_environment({}, {.launcher = Launcher::mpi}),
              HasSubstr("neither OMPI_COMM_WORLD_RANK"));
  EXPECT_THAT(refusal_of_environment({}, {.launcher = Launcher::local}), HasSubstr("-n RANKS"));
  EXPECT_THAT(refusal_of_environment({}, {.ranks = 3, .launcher = Launcher::none}),
              HasSubstr("-n asks for 3"));
}

TEST(LaunchEnvironment, RefusesHalfAndNonsense) {
  EXPECT_THAT(refusal_of_environment({{"RANK", "1"}, {"MASTER_PORT", "1"}}),
              testing::AllOf(HasSubstr("RANK=1, MASTER_PORT=1"), HasSubstr("not WORLD_SIZE, MASTER_ADDR")));
  EXPECT_THAT(refusal_of_environment({{"OMPI_COMM_WORLD_SIZE", "4"}}), HasSubstr("not OMPI_COMM_WORLD_RANK"));
  EXPECT_THAT(refusal_of_environment({{"TRIREME_RANK", "1"}}), HasSubstr("TRIREME_SECRET_FD"));
  EXPECT_THAT(refusal_of_environment({{"PMI_RANK", "4"}, {"PMI_SIZE", "4"}}), HasSubstr("rank 4 of 4 ranks"));
  EXPECT_THAT(refusal_of_environment({{"PMI_RANK", "x\n"}, {"PMI_SIZE", "4"}}),
              HasSubstr("not a whole number"));
  EXPECT_THAT(refusal_of_environment({{"PMI_RANK", "-1"}, {"PMI_SIZE", "4"}}),
              HasSubstr("not a whole number"));
  EXPECT_THAT(refusal_of_environment({{"PMI_RANK", "99999999999"}, {"PMI_SIZE", "4"}}),
              HasSubstr("not a whole number"));
  Map far = kTorchrun;
  far["MASTER_PORT"] = "70000";
  EXPECT_THAT(refusal_of_environment(far), HasSubstr("1 to 65535"));
}

TEST(LaunchEnvironment, RefusesContradictions) {
  EXPECT_THAT(
      refusal_of_environment(both(kOpenMpi, kTorchrun)),
      testing::AllOf(HasSubstr("OMPI_COMM_WORLD_RANK=2"), HasSubstr("RANK=1"), HasSubstr("--launcher=mpi")));
  EXPECT_THAT(refusal_of_environment(kOpenMpi, {.ranks = 2}),
              HasSubstr("-n asks for 2 ranks, but mpirun (Open MPI) has started 4"));
  EXPECT_EQ(detect_in(kOpenMpi, {.ranks = 4}).launcher, Launcher::mpi);
}

TEST(LaunchEnvironment, RefusesOptionsThatMeanNothing) {
  EXPECT_THAT(refusal_of_environment({}, {.ranks = -1}), HasSubstr("-n is -1"));
  EXPECT_THAT(refusal_of_environment({}, {.timeout_seconds = 0}), HasSubstr("--timeout"));
  EXPECT_THROW(parse_launcher("slrum"), Error);
  EXPECT_EQ(parse_launcher("slurm"), Launcher::slurm);
}

}  // namespace
}  // namespace trireme::comm
