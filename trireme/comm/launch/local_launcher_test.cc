#include "trireme/comm/launch/local_launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <thread>

#include "trireme/base/text.h"
#include "trireme/comm/launch/core_share.h"
#include "trireme/comm/launch/line_tagger.h"

namespace trireme::comm {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(LineTagger, WholeLinesOnly) {
  LineTagger tagger("[rank 3] ");
  EXPECT_EQ(tagger.feed("a\nb"), "[rank 3] a\n");
  EXPECT_EQ(tagger.feed(""), "");
  EXPECT_EQ(tagger.feed("c\n\nd"), "[rank 3] bc\n[rank 3] \n");
  EXPECT_EQ(tagger.finish(), "[rank 3] d\n");
  EXPECT_EQ(tagger.finish(), "");
}

TEST(LineTagger, EndlessLinesNeedNoMemory) {
  LineTagger tagger("> ");
  size_t passed = 0;
  for (int i = 0; i < 100; ++i) passed += tagger.feed(std::string(10'000, 'x')).size();
  EXPECT_GT(passed, 1'000'000 - LineTagger::kMaxLineBytes);
}

// A launcher in a process of its own, as the ranks' parent must be.
class Running {
 public:
  Running(int ranks, const std::string& script, double timeout_seconds = 0.2, int needed_ranks = 0,
          const std::optional<ElasticRanks>& elastic = std::nullopt) {
    path_ = testing::TempDir() + fmt::format("launcher_{}_{}", getpid(), count_++);
    std::fflush(nullptr);  // or the child would print again what waits to be printed
    pid_ = fork();
    if (pid_ != 0) return;
    const int out = open((path_ + ".out").c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0600);
    const int err = open((path_ + ".err").c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    signal(SIGINT, SIG_DFL);  // a shell's background job is given it ignored, and a script can not trap that
    _exit(launch_local({.ranks = ranks,
                        .needed_ranks = needed_ranks,
                        .elastic = elastic,
                        .timeout_seconds = timeout_seconds,
                        .executable = "/bin/sh",
                        .arguments = {"sh", "-c", script}}));
  }
  ~Running() {
    if (!ended_) kill(pid_, SIGKILL);
    if (!ended_) waitpid(pid_, nullptr, 0);
    unlink((path_ + ".out").c_str());
    unlink((path_ + ".err").c_str());
  }

  pid_t pid() const { return pid_; }
  std::string out() const { return content(path_ + ".out"); }
  std::string err() const { return content(path_ + ".err"); }

  // The exit code, or 1000 + the signal; −1 where it does not end.
  int wait() {
    int status = 0;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) return -1;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

 private:
  static std::string content(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  static inline int count_ = 0;
  std::string path_;
  pid_t pid_;
  bool ended_ = false;
};

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines = split(text, '\n');
  std::ranges::sort(lines);
  std::erase(lines, "");
  return lines;
}

bool exists(pid_t pid) {
  return kill(pid, 0) == 0;
}

TEST(LocalLauncher, RanksKnowWhoTheyAreAndReadNothing) {
  Running running(3, "read nothing; echo $? $TRIREME_RANK of $TRIREME_RANKS at ${TRIREME_RENDEZVOUS%:*} >&2");
  EXPECT_EQ(running.wait(), 0);
  EXPECT_EQ(sorted_lines(running.err()),
            (std::vector<std::string>{"[rank 0] 1 0 of 3 at 127.0.0.1", "[rank 1] 1 1 of 3 at 127.0.0.1",
                                      "[rank 2] 1 2 of 3 at 127.0.0.1"}));
}

TEST(LocalLauncher, RanksAreBoundToTheirShare) {
  const std::vector<int> processors = usable_processors();
  if (processors.size() < 2) GTEST_SKIP() << "one processor";
  Running running(2, "echo $TRIREME_PROCESSORS $(nproc) >&2");
  EXPECT_EQ(running.wait(), 0);
  const auto line = [&](int rank) {
    return fmt::format("[rank {}] {} {}", rank, share_of(processors, 2, rank).size(),
                       share_of(processors, 2, rank).size());
  };
  EXPECT_EQ(sorted_lines(running.err()), (std::vector<std::string>{line(0), line(1)}));
}

TEST(LocalLauncher, LinesAreTaggedButForRankZerosOutput) {
  Running running(3, "echo rank $TRIREME_RANK; echo oh >&2; [ $TRIREME_RANK = 0 ] || printf 'no end'");
  EXPECT_EQ(running.wait(), 0);
  EXPECT_EQ(sorted_lines(running.out()),
            (std::vector<std::string>{"[rank 1] no end", "[rank 1] rank 1", "[rank 2] no end",
                                      "[rank 2] rank 2", "rank 0"}))
      << running.out();
  EXPECT_EQ(sorted_lines(running.err()),
            (std::vector<std::string>{"[rank 0] oh", "[rank 1] oh", "[rank 2] oh"}));
}

TEST(LocalLauncher, LinesStayWhole) {
  Running running(4,
                  "i=0; while [ $i -lt 300 ]; do echo 'a line that is long enough to be cut somewhere' >&2; "
                  "i=$((i+1)); done");
  EXPECT_EQ(running.wait(), 0);
  const std::vector<std::string> lines = sorted_lines(running.err());
  ASSERT_EQ(lines.size(), 1200);
  for (const std::string& line : lines)
    ASSERT_EQ(line.substr(line.find(']')), "] a line that is long enough to be cut somewhere");
}

TEST(LocalLauncher, ManyRanksMuchOutput) {
  Running running(8, "head -c 3000000 /dev/zero | tr '\\0' x | fold -w 999; exit 0");
  EXPECT_EQ(running.wait(), 0);
  size_t bytes = 0;
  for (char c : running.out()) bytes += c == 'x';
  EXPECT_EQ(bytes, 8 * 3'000'000);
}

TEST(LocalLauncher, FirstFailureIsTheExitCode) {
  Running running(3, "if [ $TRIREME_RANK = 1 ]; then exit 7; fi; sleep 1; exit 9");
  EXPECT_EQ(running.wait(), 7);
  EXPECT_THAT(running.err(), HasSubstr("rank 1 ended with exit code 7"));
}

TEST(LocalLauncher, NamesRankAndSignalAndKillsTheRest) {
  const auto begin = std::chrono::steady_clock::now();
  Running running(3, "if [ $TRIREME_RANK = 2 ]; then kill -SEGV $$; fi; exec sleep 100");
  EXPECT_EQ(running.wait(), 128 + SIGSEGV);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(50));
  const std::string err = running.err();
  EXPECT_THAT(err, HasSubstr("rank 2 was killed by signal 11"));
  EXPECT_THAT(err, HasSubstr("rank 0, 1 did not end within 1.2 s after that: killed"));
  // The table marks the one that died.
  EXPECT_THAT(err, HasSubstr("   0  nothing was started\n   1  nothing was started\n   2  nothing was "
                             "started  <- was killed by signal 11"));
}

// What rank 0 leaves in the flight recorder with its first operation.
constexpr const char* kHaveMet = "printf '\\001' 1<>/proc/self/fd/$TRIREME_RECORDER_FD; ";

TEST(LocalLauncher, GoesOnWithoutRanksThatAreNotNeeded) {
  const std::string script =
      std::string(kHaveMet) +
      "case $TRIREME_RANK in 0) sleep 2; exit $CODE;; 1) sleep 0.2; kill -9 $$;; 2) sleep 0.2; exit 4;; esac";
  for (const int code : {0, 5}) {
    setenv("CODE", std::to_string(code).c_str(), 1);
    Running running(4, script, /*timeout_seconds=*/0.2, /*needed_ranks=*/1);
    EXPECT_EQ(running.wait(), code);
    EXPECT_THAT(running.err(), HasSubstr("rank 1 was killed by signal 9 (Killed); the others go on"));
    EXPECT_THAT(running.err(), HasSubstr("rank 2 ended with exit code 4; the others go on"));
    EXPECT_THAT(running.err(), Not(HasSubstr("did not end within")));
  }
  unsetenv("CODE");
}

TEST(LocalLauncher, AllAreNeededUntilTheyHaveMet) {
  Running running(3, "case $TRIREME_RANK in 1) kill -9 $$;; esac; exec sleep 100", /*timeout_seconds=*/0.2,
                  /*needed_ranks=*/1);
  EXPECT_EQ(running.wait(), 128 + SIGKILL);
  EXPECT_THAT(running.err(), HasSubstr("rank 1 was killed by signal 9 (Killed)\n"));
  EXPECT_THAT(running.err(), HasSubstr("rank 0, 2 did not end within 1.2 s after that: killed"));
}

TEST(LocalLauncher, RanksThatAreNotNeededDoNotOutliveTheOthers) {
  Running running(2, std::string(kHaveMet) + "if [ $TRIREME_RANK = 1 ]; then kill -STOP $$; fi; sleep 0.2",
                  /*timeout_seconds=*/0.2, /*needed_ranks=*/1);
  EXPECT_EQ(running.wait(), 0);
  EXPECT_THAT(running.err(), HasSubstr("rank 1 did not end within 1.2 s after the others: killed"));
}

TEST(LocalLauncher, OthersMayEndWithTheirOwnWords) {
  Running running(2,
                  "if [ $TRIREME_RANK = 0 ]; then kill -9 $$; fi; sleep 0.3; echo peer is gone >&2; exit 1");
  EXPECT_EQ(running.wait(), 128 + SIGKILL);
  EXPECT_THAT(running.err(), HasSubstr("[rank 1] peer is gone\n"));
  EXPECT_THAT(running.err(), Not(HasSubstr("did not end")));
}

// A rank that noticed the death may be heard of before the one that died: the signal says more.
TEST(LocalLauncher, ASignalCountsMoreThanAnEarlierExitCode) {
  Running running(3,
                  "case $TRIREME_RANK in 0) exit 5;; 1) sleep 0.3; kill -SEGV $$;; esac; sleep 0.6; exit 6",
                  /*timeout_seconds=*/10);
  EXPECT_EQ(running.wait(), 128 + SIGSEGV);
  EXPECT_THAT(running.err(), HasSubstr("rank 0 ended with exit code 5"));
  EXPECT_THAT(running.err(), HasSubstr("rank 1 was killed by signal 11"));
  EXPECT_THAT(running.err(), HasSubstr("nothing was started"));  // the table, as for any death by signal
}

TEST(LocalLauncher, PassesOnSignalsOnceThenKills) {
  Running running(
      2, "trap 'echo stopping >&2; trap \"\" INT' INT; echo ready >&2; while :; do sleep 0.05; done");
  const auto count = [&](const char* word) {
    return std::ranges::count_if(sorted_lines(running.err()),
                                 [&](const std::string& line) { return line.ends_with(word); });
  };
  ASSERT_TRUE(eventually([&] { return count("ready") == 2; })) << running.err();
  kill(running.pid(), SIGINT);
  EXPECT_TRUE(eventually([&] { return count("stopping") == 2; })) << running.err();
  kill(running.pid(), SIGTERM);
  EXPECT_EQ(running.wait(), 128 + SIGKILL);
  EXPECT_THAT(running.err(), HasSubstr("killing the ranks"));
}

TEST(LocalLauncher, InterruptedRanksSayTheirOwnExitCode) {
  Running running(2, "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done");
  ASSERT_TRUE(eventually([&] { return sorted_lines(running.out()).size() == 2; }));
  kill(running.pid(), SIGTERM);
  EXPECT_EQ(running.wait(), 3);
  EXPECT_THAT(running.err(), Not(HasSubstr("trireme:")));
}

TEST(LocalLauncher, AStuckRankDoesNotOutliveTheOthersAfterASignal) {
  for (const int number : {SIGTERM, SIGHUP}) {
    Running running(
        2,
        "if [ $TRIREME_RANK = 1 ]; then trap '' TERM HUP; echo ready; while :; do sleep 0.05; done; "
        "fi; trap 'exit 3' TERM HUP; echo ready; while :; do sleep 0.05; done");
    ASSERT_TRUE(eventually([&] { return sorted_lines(running.out()).size() == 2; }));
    kill(running.pid(), number);
    EXPECT_EQ(running.wait(), 3);
    EXPECT_THAT(running.err(), HasSubstr("rank 1 did not end within 1.2 s after the others: killed"));
  }
}

TEST(LocalLauncher, AStoppedRankHearsOfASignal) {
  Running running(2,
                  "trap 'exit 3' TERM; echo ready; if [ $TRIREME_RANK = 1 ]; then kill -STOP $$; fi; "
                  "while :; do sleep 0.05; done");
  ASSERT_TRUE(eventually([&] { return sorted_lines(running.out()).size() == 2; }));
  kill(running.pid(), SIGTERM);
  EXPECT_EQ(running.wait(), 3);
  EXPECT_THAT(running.err(), Not(HasSubstr("trireme:")));
}

// A shell that goes away sends one, and the system another.
TEST(LocalLauncher, ASecondHangupKillsNobody) {
  Running running(2, "trap 'sleep 0.5; exit 3' HUP; echo ready; while :; do sleep 0.05; done");
  ASSERT_TRUE(eventually([&] { return sorted_lines(running.out()).size() == 2; }));
  kill(running.pid(), SIGHUP);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(running.pid(), SIGHUP);
  EXPECT_EQ(running.wait(), 3);
  EXPECT_THAT(running.err(), Not(HasSubstr("trireme:")));
}

// Tells the launcher why it ends: c for its own failure, e for another's, o for none.
std::string says(const std::string& words) {
  return fmt::format("printf '{}' >/proc/self/fd/$TRIREME_LAST_WORDS_FD; exit 1", words);
}

TEST(LocalLauncher, WhatAllRanksSayIsSaidOnce) {
  Running running(3, says("cthere is no file"));
  EXPECT_EQ(running.wait(), 1);
  EXPECT_THAT(running.err(), testing::MatchesRegex("\\[rank [012]\\] there is no file\n"));
}

TEST(LocalLauncher, CausesAreSaidInsteadOfTheirEchoes) {
  Running running(3, "if [ $TRIREME_RANK = 1 ]; then sleep 0.3; " + says("cthe disk is full") + "; fi; " +
                         says("erank 1 is gone"));
  EXPECT_EQ(running.wait(), 1);
  EXPECT_EQ(running.err(), "[rank 1] the disk is full\n");
}

TEST(LocalLauncher, AnEndInOrderIsNotSaidAgain) {
  Running running(3, says("othe time is up"));
  EXPECT_EQ(running.wait(), 1);
  EXPECT_EQ(running.err(), "");
}

TEST(LocalLauncher, AnEchoIsSaidWhereNothingElseIs) {
  Running running(3, "if [ $TRIREME_RANK = 1 ]; then kill -9 $$; fi; " + says("erank 1 is gone"));
  EXPECT_EQ(running.wait(), 128 + SIGKILL);
  EXPECT_THAT(running.err(), HasSubstr("trireme: rank 1 was killed by signal 9 (Killed)\n"));
  EXPECT_THAT(running.err(), testing::ContainsRegex("\\[rank [02]\\] rank 1 is gone\n"));
  EXPECT_EQ(std::ranges::count(sorted_lines(running.err()), "[rank 0] rank 1 is gone") +
                std::ranges::count(sorted_lines(running.err()), "[rank 2] rank 1 is gone"),
            1);
}

TEST(LocalLauncher, ElasticJobsGoOnWithThoseThatAreLeft) {
  // Rank 2 is killed in the first start, and no other start has one.
  Running running(
      3,
      "echo $TRIREME_RANK of $TRIREME_RANKS: $TRIREME_AGAIN_BECAUSE >&2; case $TRIREME_RANKS in "
      "2) exit 0;; esac; if [ $TRIREME_RANK = 2 ]; then sleep 0.2; kill -9 $$; fi; exec sleep 100",
      /*timeout_seconds=*/50, 0, ElasticRanks{1, 3});
  EXPECT_EQ(running.wait(), 0);
  EXPECT_THAT(running.err(), Not(HasSubstr("did not end within")));  // nobody waited for the others
  EXPECT_THAT(running.err(), HasSubstr("rank 2 was killed by signal 9 (Killed)\n"));
  EXPECT_THAT(running.err(), HasSubstr("trireme: goes on with 2 of 3 ranks\n"));
  EXPECT_THAT(running.err(), HasSubstr("[rank 1] 1 of 2: rank 2 was killed by signal 9 (Killed)\n"));
}

TEST(LocalLauncher, ARankThatOthersWaitForInVainIsLost) {
  Running running(3,
                  std::string("if [ $TRIREME_RANKS = 2 ]; then exit 0; fi; "
                              "if [ $TRIREME_RANK = 1 ]; then kill -STOP $$; fi; ") +
                      says("eanother is gone"),
                  /*timeout_seconds=*/0.2, 0, ElasticRanks{2, 3});
  EXPECT_EQ(running.wait(), 0);
  EXPECT_THAT(running.err(), HasSubstr("rank 1 did not end within 1.2 s after that: killed"));
  EXPECT_THAT(running.err(), HasSubstr("goes on with 2 of 3 ranks"));
}

TEST(LocalLauncher, ElasticJobsTakeTheNumberThatFits) {
  ElasticRanks even{2, 4};
  even.fits = [](int ranks) { return ranks % 2 == 0; };
  Running running(4, "if [ $TRIREME_RANKS = 2 ]; then exit 0; fi; kill -9 $$", 0.2, 0, even);
  EXPECT_EQ(running.wait(), 0);
  EXPECT_THAT(running.err(), HasSubstr("goes on with 2 of 4 ranks"));
}

TEST(LocalLauncher, ElasticJobsEndWhereTooFewAreLeft) {
  Running running(3, "if [ $TRIREME_RANK = 0 ]; then kill -9 $$; fi; exec sleep 100", 0.2, 0,
                  ElasticRanks{2, 3});
  EXPECT_EQ(running.wait(), 128 + SIGKILL);
  EXPECT_THAT(running.err(), HasSubstr("goes on with 2 of 3 ranks"));
  EXPECT_THAT(running.err(), HasSubstr("1 of 3 ranks are left, and --elastic 2:3 needs 2"));
}

TEST(LocalLauncher, ErrorsOfItsOwnEndAnElasticJobToo) {
  Running running(3,
                  "if [ $TRIREME_RANK = 0 ]; then " + says("cno data") + "; fi; " + says("eanother is gone"),
                  0.2, 0, ElasticRanks{1, 3});
  EXPECT_EQ(running.wait(), 1);
  EXPECT_THAT(running.err(), Not(HasSubstr("goes on")));
}

// A rank that does not listen at first is asked again.
TEST(LocalLauncher, ElasticJobsGrowAgain) {
  Running running(
      2,
      std::string(
          "case \"$TRIREME_RANKS $TRIREME_AGAIN_BECAUSE\" in '2 there'*) exit 0;; '2 ') "
          "if [ $TRIREME_RANK = 1 ]; then kill -9 $$; fi; exec sleep 100;; esac; "
          "sleep 0.5; exec python3 -c \"import os, signal, sys, time\n"
          "signal.signal(signal.SIGUSR1, lambda *_: (os.write(int(os.environ['TRIREME_LAST_WORDS_FD']), "
          "b'aroom'), sys.exit(0)))\ntime.sleep(100)\""),
      /*timeout_seconds=*/0.2, 0, ElasticRanks{1, 2, /*grow_after_seconds=*/0.1});
  EXPECT_EQ(running.wait(), 0);
  EXPECT_THAT(running.err(), HasSubstr("starts all 2 ranks again after the step at hand"));
}

// As after `| head`: nobody is there to read why.
TEST(LocalLauncher, EndsQuietlyWithARankWhoseOutputNobodyReads) {
  Running running(3, "if [ $TRIREME_RANK = 0 ]; then kill -PIPE $$; fi; exec sleep 100");
  EXPECT_EQ(running.wait(), 128 + SIGPIPE);
  EXPECT_EQ(running.err(), "");
}

TEST(LocalLauncher, NoOrphansWhenItIsKilled) {
  Running running(3, "echo pid=$$; exec sleep 100");
  ASSERT_TRUE(eventually([&] { return sorted_lines(running.out()).size() == 3; }));
  std::vector<pid_t> ranks;
  for (const std::string& line : sorted_lines(running.out()))
    ranks.push_back(std::stoi(line.substr(line.find('=') + 1)));
  for (pid_t rank : ranks) ASSERT_TRUE(exists(rank));
  kill(running.pid(), SIGKILL);
  EXPECT_EQ(running.wait(), 1000 + SIGKILL);
  for (pid_t rank : ranks) EXPECT_TRUE(eventually([&] { return !exists(rank); }));
}

TEST(LocalLauncher, StoppedRanksAreKilledToo) {
  Running running(2, "if [ $TRIREME_RANK = 0 ]; then sleep 0.2; exit 1; fi; kill -STOP $$");
  EXPECT_EQ(running.wait(), 1);
  EXPECT_THAT(running.err(), HasSubstr("rank 1 did not end"));
}

TEST(LocalLauncher, SaysWhatCouldNotBeStarted) {
  try {
    launch_local({.ranks = 2, .executable = "/no/such/program", .arguments = {"x"}});
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 0 could not be started: /no/such/program: No such file"));
  }
}

int inheritable_descriptors() {
  int count = 0;
  for (int i = 0; i < 1024; ++i) {
    const int flags = fcntl(i, F_GETFD);
    count += flags >= 0 && (flags & FD_CLOEXEC) == 0;
  }
  return count;
}

// Of the launcher's own descriptors a rank has only what it is meant to have.
TEST(LocalLauncher, NothingElseIsInherited) {
  Running running(2, "ls /proc/self/fd | wc -l >&2");
  EXPECT_EQ(running.wait(), 0);
  const int opened_by_the_test = inheritable_descriptors() + 2;
  // The secret, the recorder, last words, and that of ls; rank 0 has the listener as well.
  EXPECT_EQ(sorted_lines(running.err()),
            (std::vector<std::string>{fmt::format("[rank 0] {}", opened_by_the_test + 5),
                                      fmt::format("[rank 1] {}", opened_by_the_test + 4)}));
}

}  // namespace
}  // namespace trireme::comm
