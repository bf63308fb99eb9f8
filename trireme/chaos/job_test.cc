#include "trireme/chaos/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "trireme/base/error.h"
#include "trireme/chaos/resources.h"

namespace trireme::chaos {
namespace {

TEST(ChaosJob, LinesAreFoundWithTheirTimes) {
  Job job(1);
  const Clock::time_point begin = Clock::now();
  job.start({"sh", "-c", "echo step 1/9 loss; echo 'step 1  validation'; sleep 0.1; echo step 2/9; exit 5"});
  EXPECT_EQ(job.wait_for_end(30), 5);
  EXPECT_EQ(job.steps(), 2);
  const Line* word = job.find_line(begin, "validation");
  ASSERT_NE(word, nullptr);
  EXPECT_EQ(word->text, "step 1  validation");
  EXPECT_GE(job.time_of_step_from(word->at + std::chrono::microseconds(1)) - begin,
            std::chrono::milliseconds(100));
  EXPECT_EQ(job.find_line(word->at + std::chrono::microseconds(1), "validation"), nullptr);
  EXPECT_EQ(job.time_of_step_from(Clock::now()), Clock::time_point::max());
}

TEST(ChaosJob, WhatDoesNotComeIsAnErrorWithTheLastWords) {
  Job job(1);
  job.start({"sh", "-c", "echo I sleep; sleep 60"});
  job.wait_until("line", 30, [&] { return job.find_line({}, "sleep") != nullptr; });
  try {
    job.wait_until("dawn", 0.05, [] { return false; });
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("no dawn; the job said last:\n  I sleep"));
  }
  job.kill();
  EXPECT_EQ(job.wait_for_end(1), 128 + SIGKILL);
}

TEST(ChaosJob, RanksAreFoundByTheirVariables) {
  Job job(1);
  job.start(
      {"sh", "-c",
       "TRIREME_RANK=0 sleep 60 & TRIREME_RANK=1 TRIREME_MEMORY=/dev/shm/there sleep 60 & sleep 60 & wait"});
  job.wait_until("two ranks", 30, [&] { return job.rank_processes().size() == 2; });
  EXPECT_EQ(job.seen_processes().size(), 2u);
  EXPECT_THAT(job.seen_folders(), testing::ElementsAre("/dev/shm/there"));
  for (const pid_t process : job.seen_processes()) kill(process, SIGKILL);
}

TEST(ChaosJob, LeavesNoOpenFiles) {
  const int before = resources_of(getpid()).descriptors;
  for (int i = 0; i < 3; ++i) {
    Job job(1);
    job.start({"true"});
    job.wait_for_end(30);
  }
  EXPECT_EQ(resources_of(getpid()).descriptors, before);
}

TEST(ChaosJob, VariablesOfLaunchersAreNotPassedOn) {
  setenv("WORLD_SIZE", "8", 1);
  Job job(1);
  job.start({"sh", "-c", "echo size:$WORLD_SIZE rank:$RANK"}, {{"RANK", "3"}});
  unsetenv("WORLD_SIZE");
  job.wait_for_end(30);
  EXPECT_NE(job.find_line({}, "size: rank:3"), nullptr) << job.last_lines(1);
}

}  // namespace
}  // namespace trireme::chaos
