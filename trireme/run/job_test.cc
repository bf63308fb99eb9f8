// A job of one rank in this process, and what is refused before ranks are started. tests/install_test.py runs
// one that starts its ranks, and the tests of the command are tests of jobs.
#include "trireme/run/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <mutex>

#include "trireme/data/test_files.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What a job tells, by the names of the calls.
class Recorded : public RunObserver {
 public:
  void placed(const RankPlace& place) override {  // by all ranks at once
    const std::lock_guard lock(mutex_);
    calls.push_back("placed");
    ranks = place.ranks;
  }
  void started(const RunStart&) override { calls.push_back("started"); }
  void stepped(const StepMetrics& step) override {
    calls.push_back("stepped");
    loss = step.loss;
  }
  void ended(const RunResult&) override { calls.push_back("ended"); }
  std::vector<std::string> calls;
  int ranks = 0;
  double loss = 0;

 private:
  std::mutex mutex_;
};

class Jobs : public ::testing::Test {
 protected:
  ResolvedConfig config(std::vector<std::string> more = {}) const {
    std::vector<std::string> settings = {
        "model.layers=1",  "model.hidden=8",      "model.heads=1",
        "model.seq=8",     "train.batch=4",       "train.steps=2",
        "train.threads=1", "run.sample_tokens=0", "run.dir=" + (folder_.path() / "run").string()};
    settings.insert(settings.end(), more.begin(), more.end());
    return resolve_config({.command_line = settings});
  }
  std::string text() {
    std::string words;
    for (int i = 0; i < 200; ++i) words += "a job of one rank\n";
    folder_.write("text.txt", words);
    return (folder_.path() / "text.txt").string();
  }
  TempFolder folder_;
  Recorded told_;
};

TEST_F(Jobs, TrainsAndTells) {
  EXPECT_EQ(run_training(config(), told_, {.default_text = text()}), kOk);
  EXPECT_THAT(told_.calls, ElementsAre("placed", "started", "stepped", "stepped", "ended"));
  EXPECT_EQ(told_.ranks, 1);
  EXPECT_GT(told_.loss, 0);
}

TEST_F(Jobs, TheTimeMayBeUp) {
  EXPECT_EQ(run_training(config({"train.steps=100000", "train.max_minutes=0.001"}), told_,
                         {.default_text = text()}),
            kTimeIsUp);
}

// The program's own flag, of ranks that are threads: all end after the same step, and signals stay the
// program's.
TEST_F(Jobs, TheProgramMayStopIt) {
  std::atomic<bool> stop = true;
  std::signal(SIGINT, SIG_IGN);
  const JobOptions options{.launch = {.ranks = 2, .device_links = comm::DeviceLinks::in_memory},
                           .default_text = text(),
                           .stop = &stop};
  EXPECT_EQ(run_training(config({"train.steps=100000"}), told_, options), kInterrupted);
  EXPECT_EQ(std::ranges::count(told_.calls, "stepped"), 1);
  EXPECT_EQ(std::signal(SIGINT, SIG_DFL), SIG_IGN);
}

TEST_F(Jobs, DataOfTheProgram) {
  Config seen;
  JobOptions options;
  options.open_data = [&](const Config& config) {
    seen = config;
    return open_run_data(config, text());
  };
  EXPECT_EQ(run_training(config(), told_, options), kOk);
  EXPECT_EQ(seen.train.batch, 4);
}

// With -n 2 a mistake is found by the process that would start the ranks.
TEST_F(Jobs, MistakesAreFoundBeforeRanksAreStarted) {
  const auto refusal = [&](JobOptions options) {
    options.launch.ranks = 2;
    options.default_text = text();
    return error_of([&] { run_training(config(), told_, options); });
  };
  EXPECT_THAT(refusal({.plan = R"({"mesh": "data:3"})"}), HasSubstr("3"));
  EXPECT_THAT(refusal({.plan = R"({"mesh": "tensor:2", "preset": "megatron"})"}), HasSubstr("heads"));
  EXPECT_THAT(refusal({.slow = "rank=2,factor=2"}), HasSubstr("--slow"));
  EXPECT_THAT(refusal({.replay = "metrics.jsonl"}), HasSubstr("--replay"));
  EXPECT_THAT(refusal({.plan = "auto", .cluster = "no_such.toml"}), HasSubstr("trireme profile -n 2"));
  EXPECT_TRUE(told_.calls.empty());
}

}  // namespace
}  // namespace trireme
