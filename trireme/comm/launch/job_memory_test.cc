// The folder goes whichever way its owner ends, and whatever is in it.
#include "trireme/comm/launch/job_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"

namespace trireme::comm {
namespace {

namespace fs = std::filesystem;

TEST(JobMemory, IsGoneWithTheObject) {
  const TempFolder where;
  std::optional<JobMemory> memory(where.path());
  const fs::path path = memory->path();
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
  fs::create_directory(path / "checkpoints");
  std::ofstream(path / "checkpoints" / "copy") << "a copy";
  memory.reset();
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::is_empty(where.path()));
}

TEST(JobMemory, IsGoneWhenItsOwnerIsKilled) {
  const TempFolder where;
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    const JobMemory memory(where.path());
    std::ofstream(memory.path() + "/copy") << "a copy";
    if (write(ends[1], "x", 1) != 1) _exit(1);
    pause();
  }
  close(ends[1]);
  char made = 0;
  ASSERT_EQ(read(ends[0], &made, 1), 1);
  EXPECT_FALSE(fs::is_empty(where.path()));
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  // The keeper has closed its end as well, or this would wait until it is gone.
  EXPECT_EQ(read(ends[0], &made, 1), 0);
  close(ends[0]);
  for (int i = 0; i < 1000 && !fs::is_empty(where.path()); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(fs::is_empty(where.path()));
}

TEST(JobMemory, SaysWhyThereIsNone) {
  EXPECT_THAT(error_of([] { JobMemory("/no/such/folder"); }),
              testing::HasSubstr("cannot make a folder in /no/such/folder for copies in memory"));
}

}  // namespace
}  // namespace trireme::comm
