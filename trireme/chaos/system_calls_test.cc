#include "trireme/chaos/system_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/chaos/job.h"

namespace trireme::chaos {
namespace {

namespace fs = std::filesystem;
using What = SystemCalls::Answer::What;

// The exit code of a shell command whose system calls are watched.
int run_watched(SystemCalls& calls, const std::string& command, std::string* said = nullptr) {
  Job job(1);
  try {
    job.start({"sh", "-c", command}, {}, &calls);
  } catch (const Error& error) {
    return -1;
  }
  const int code = job.wait_for_end(30);
  if (said) *said = job.last_lines(5);
  return code;
}

class WatchedFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = fs::temp_directory_path() / "system-calls-XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

TEST_F(WatchedFiles, FailAsTheyAreToldAndOthersDoNot) {
  SystemCalls calls(SystemCalls::Watched::kFileChanges, [](const SystemCalls::Call& call) {
    return call.path.ends_with("/full") ? SystemCalls::Answer{What::kFails, ENOSPC} : SystemCalls::Answer{};
  });
  std::string said;
  const int code =
      run_watched(calls, "echo text > " + file("whole") + " && echo text > " + file("full"), &said);
  if (code == -1) GTEST_SKIP() << "no seccomp notifications here";
  EXPECT_NE(code, 0);
  EXPECT_THAT(said, testing::HasSubstr("No space left on device"));
  EXPECT_EQ(fs::file_size(file("whole")), 5u);
  EXPECT_FALSE(fs::exists(file("full")));
}

TEST_F(WatchedFiles, AreSeenInTheirOrder) {
  std::vector<std::string> seen;
  int code = 0;
  {
    SystemCalls calls(SystemCalls::Watched::kFileChanges, [&](const SystemCalls::Call& call) {
      if (call.path.starts_with(folder_.string()))
        seen.push_back(fs::path(call.path).filename().string() + (call.removes ? " removed" : ""));
      return SystemCalls::Answer{};
    });
    code = run_watched(
        calls, "mkdir " + file("a") + " && mv " + file("a") + " " + file("b") + " && rmdir " + file("b"));
  }  // its thread has ended
  if (code == -1) GTEST_SKIP() << "no seccomp notifications here";
  EXPECT_EQ(code, 0);
  EXPECT_THAT(seen, testing::ElementsAre("a", "a", "b removed"));
}

TEST_F(WatchedFiles, ThatAreOnlyReadAreNotSeen) {
  std::atomic<int> seen{0};
  SystemCalls calls(SystemCalls::Watched::kFileChanges, [&](const SystemCalls::Call& call) {
    seen += call.path.find("hostname") != std::string::npos;
    return SystemCalls::Answer{};
  });
  if (run_watched(calls, "read line < /etc/hostname") == -1) GTEST_SKIP() << "no seccomp notifications here";
  EXPECT_EQ(seen, 0);
}

// What arrives of a message of 32 times 'x', and what the sender was told; Python's socket.sendmsg() is the
// system call. "" where there are no notifications.
std::string what_arrives(What what) {
  SystemCalls calls(SystemCalls::Watched::kMessages, [&](const SystemCalls::Call& call) {
    EXPECT_EQ(call.bytes, 32u);
    return SystemCalls::Answer{what};
  });
  std::string said;
  const int code = run_watched(calls,
                               "python3 -c \"import socket; a, b = socket.socketpair(); b.settimeout(0.3); "
                               "print('sent', a.sendmsg([b'x' * 20, b'x' * 12]))\nprint(b.recv(99))\"",
                               &said);
  return code == -1 ? "" : said;
}

TEST(WatchedMessages, VanishOrAreFlippedUnknownToTheSender) {
  const std::string whole = what_arrives(What::kGoesAhead);
  if (whole.empty()) GTEST_SKIP() << "no seccomp notifications here";
  EXPECT_THAT(whole, testing::HasSubstr(std::string(32, 'x')));
  const std::string vanished = what_arrives(What::kVanishes), flipped = what_arrives(What::kIsFlipped);
  EXPECT_THAT(vanished, testing::HasSubstr("timed out"));
  EXPECT_THAT(flipped, testing::HasSubstr(std::string(23, 'x') + "X" + std::string(8, 'x')));
  for (const std::string& said : {whole, vanished, flipped}) EXPECT_THAT(said, testing::HasSubstr("sent 32"));
}

}  // namespace
}  // namespace trireme::chaos
