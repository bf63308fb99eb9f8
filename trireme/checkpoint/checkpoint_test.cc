// Checkpoints: a run goes on from the newest whole one, whatever happened to the newest.
#include "trireme/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"
#include "trireme/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Weights and a moment whose values tell the step.
struct Tensors {
  explicit Tensors(int64_t step, int64_t count = 1000)
      : weight(count, 1.0f * step), moment(count, 2.0f * step) {}
  std::vector<PartView> model() { return {view("w", weight)}; }
  std::vector<PartView> optimizer() { return {view("w.m", moment)}; }
  static PartView view(const char* name, std::vector<float>& values) {
    const Shape shape{static_cast<int64_t>(values.size())};
    return {name, {values.data(), DType::f32, shape}, all_of(shape)};
  }

  std::vector<float> weight, moment;
};

class CheckpointTest : public ::testing::Test {
 protected:
  Checkpoints checkpoints(int64_t keep = 3) const { return {run_, keep}; }
  fs::path folder(int64_t step) const { return run_ / "checkpoints" / checkpoint_name(step); }
  std::string save(int64_t step, int64_t keep = 3, int64_t count = 1000) const {
    Tensors tensors(step, count);
    return checkpoints(keep).save({.step = step, .seed = 9}, tensors.model(), tensors.optimizer());
  }
  // Loads the newest and checks that its tensors are those of its step.
  int64_t loaded_step(std::vector<std::string>* messages = nullptr) const {
    const auto loaded = checkpoints().load_latest();
    if (!loaded) return -1;
    Tensors expected(loaded->state.step), found(0);
    loaded->model.read_all(found.model());
    loaded->optimizer.read_all(found.optimizer());
    EXPECT_EQ(found.weight, expected.weight);
    EXPECT_EQ(found.moment, expected.moment);
    if (messages) *messages = loaded->messages;
    return loaded->state.step;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(run_ / "checkpoints"))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }

  const TempFolder scratch_;
  const fs::path run_ = scratch_.path();
};

// What is saved is what was there when it began, however long it takes and whatever training does meanwhile.
TEST_F(CheckpointTest, InTheBackgroundTheValuesOfItsBeginningAreSaved) {
  Checkpoints saved = checkpoints();
  Tensors tensors(1);
  for (int64_t step = 1; step <= 3; ++step) {
    tensors = Tensors(step, /*count=*/1'000'000);
    saved.begin({.step = step}, tensors.model(), tensors.optimizer());
    EXPECT_TRUE(saved.is_under_way());
    std::ranges::fill(tensors.weight, -1.0f);
    std::ranges::fill(tensors.moment, -1.0f);
    if (step == 2) {
      while (!saved.poll()) std::this_thread::yield();
    } else {
      EXPECT_EQ(saved.settle(), folder(step));
    }
    EXPECT_FALSE(saved.is_under_way());
    const auto loaded = saved.load_latest();
    Tensors expected(step, 1'000'000), found(0, 1'000'000);
    loaded->model.read_all(found.model());
    loaded->optimizer.read_all(found.optimizer());
    EXPECT_EQ(loaded->state.step, step);
    EXPECT_EQ(found.weight, expected.weight);
    EXPECT_EQ(found.moment, expected.moment);
  }
  EXPECT_THAT(names(), ElementsAre("step-00000001", "step-00000002", "step-00000003"));
}

// A copy that is still being written when the run ends badly is written to its end, and never counts.
TEST_F(CheckpointTest, WhatIsNotSettledDoesNotCount) {
  save(1);
  {
    Checkpoints saved = checkpoints();
    Tensors tensors(2);
    saved.begin({.step = 2}, tensors.model(), tensors.optimizer());
  }
  EXPECT_EQ(loaded_step(), 1);
  checkpoints().clean_up();
  EXPECT_THAT(names(), ElementsAre("step-00000001"));
}

TEST_F(CheckpointTest, RoundTrips) {
  EXPECT_EQ(checkpoints().load_latest(), std::nullopt);
  Tensors tensors(5);
  const TrainState state{.step = 5,
                         .seed = 0xfedcba9876543210,
                         .data = {.epoch = 3, .index = 1'000'000'007},
                         .loss_scale = 65536.0,
                         .scale_age = 17,
                         .made_with = {{"data", "a \"b\""}, {"train.seed", "9"}},
                         .extra = R"({"best":1.5,"name":"a"})"};
  const std::string path = checkpoints().save(state, tensors.model(), tensors.optimizer());
  EXPECT_EQ(path, folder(5).string());
  const auto loaded = checkpoints().load_latest();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->state, state);
  EXPECT_EQ(loaded->path, path);
  EXPECT_THAT(loaded->messages, IsEmpty());
  EXPECT_EQ(loaded_step(), 5);
}

TEST_F(CheckpointTest, AtLeastOneIsKept) {
  EXPECT_THAT(error_of([&] { checkpoints(0); }),
              HasSubstr("0 checkpoints are to be kept; 1 or more expected"));
}

TEST_F(CheckpointTest, NamesParseBack) {
  for (int64_t step : {int64_t{0}, int64_t{1000}, int64_t{99999999}, int64_t{100000000}, INT64_MAX}) {
    EXPECT_EQ(parse_checkpoint_name(checkpoint_name(step)), step);
  }
  for (const char* name : {"step-", "step-1", "step-000000001", "step-0000000x", "step--0000001",
                           ".incoming-step-00000001", "step-00000001.old", "step-99999999999999999999"}) {
    EXPECT_EQ(parse_checkpoint_name(name), std::nullopt) << name;
  }
}

TEST_F(CheckpointTest, KeepsTheNewest) {
  for (int64_t step : {1, 2, 9, 10, 11}) save(step, 2);
  EXPECT_THAT(names(), ElementsAre("step-00000010", "step-00000011"));
  EXPECT_EQ(loaded_step(), 11);
}

void flip_a_byte(const fs::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle = static_cast<std::streamoff>(fs::file_size(path) / 2);
  file.seekg(middle);
  const char byte = static_cast<char>(file.get() ^ 4);
  file.seekp(middle);
  file.put(byte);
}

TEST_F(CheckpointTest, OneThatIsAlwaysKeptStaysBesideTheOthers) {
  Checkpoints saved = checkpoints(2);
  for (const int64_t step : {1, 2, 3, 4, 5, 6}) {
    if (step == 2) saved.always_keep({2});
    if (step == 5) saved.always_keep({5});
    Tensors tensors(step);
    saved.save({.step = step}, tensors.model(), tensors.optimizer());
    if (step == 4) {
      EXPECT_THAT(saved.steps(), ElementsAre(2, 3, 4));
    }
  }
  EXPECT_THAT(saved.steps(), ElementsAre(4, 5, 6));  // 2 no longer is
}

TEST_F(CheckpointTest, DamagedOnesAreRemovedFirst) {
  for (int64_t step : {1, 2, 3}) save(step);
  flip_a_byte(folder(2) / "model.safetensors");
  flip_a_byte(folder(3) / "state.json");
  save(4);
  EXPECT_THAT(names(), ElementsAre("step-00000001", "step-00000003", "step-00000004"));
  save(5, 2);
  EXPECT_THAT(names(), ElementsAre("step-00000004", "step-00000005"));
}

// Also damage that comes after this process has seen them whole.
TEST_F(CheckpointTest, OneWriterSeesWhatIsDamagedOnTheWay) {
  Checkpoints one = checkpoints(2);
  const auto save_one = [&](int64_t step) {
    Tensors tensors(step);
    one.save({.step = step}, tensors.model(), tensors.optimizer());
  };
  for (int64_t step : {1, 2}) save_one(step);
  flip_a_byte(folder(2) / "model.safetensors");
  save_one(3);
  EXPECT_THAT(names(), ElementsAre("step-00000001", "step-00000003"));
  save_one(4);
  EXPECT_THAT(names(), ElementsAre("step-00000003", "step-00000004"));
}

TEST_F(CheckpointTest, TwoWholeOnesAlwaysStay) {
  for (int64_t step : {1, 2, 3}) save(step, 1);
  EXPECT_THAT(names(), ElementsAre("step-00000002", "step-00000003"));
  flip_a_byte(folder(3) / "model.safetensors");
  save(4, 1);
  EXPECT_THAT(names(), ElementsAre("step-00000002", "step-00000004"));
}

TEST_F(CheckpointTest, ASecondSaveOfAStepReplacesTheFirst) {
  save(1);
  save(1, 3, 10);
  EXPECT_THAT(names(), ElementsAre("step-00000001"));
  EXPECT_EQ(checkpoints().load_latest()->model.tensors()[0].shape, Shape{10});
}

// After falling back, a damaged newer one must not push out the one just written.
TEST_F(CheckpointTest, NewerOnesDoNotCountAgainstKeep) {
  save(10);
  save(20);
  fs::resize_file(folder(20) / "state.json", 3);
  save(15, 1);
  EXPECT_THAT(names(), ElementsAre("step-00000010", "step-00000015", "step-00000020"));
  EXPECT_EQ(loaded_step(), 15);
}

const char* const kFiles[] = {"model.safetensors", "optimizer.safetensors", "state.json", "checksums.json"};

TEST_F(CheckpointTest, AnyDamageFallsBackToThePreviousOneAndSaysSo) {
  const std::map<std::string, void (*)(const fs::path&)> damages = {
      {"flipped", flip_a_byte},
      {"truncated", [](const fs::path& path) { fs::resize_file(path, fs::file_size(path) - 1); }},
      {"empty", [](const fs::path& path) { fs::resize_file(path, 0); }},
      {"longer", [](const fs::path& path) { std::ofstream(path, std::ios::app) << "x"; }},
      {"missing", [](const fs::path& path) { fs::remove(path); }},
      {"a folder", [](const fs::path& path) { fs::remove(path), fs::create_directory(path); }},
  };
  for (const auto& [damage, apply] : damages) {
    for (const std::string file : kFiles) {
      fs::remove_all(run_ / "checkpoints");
      save(1);
      save(2);
      apply(folder(2) / file);
      std::vector<std::string> messages;
      EXPECT_EQ(loaded_step(&messages), 1) << file << " " << damage;
      EXPECT_THAT(messages,
                  ElementsAre(AllOf(HasSubstr("checkpoint step-00000002 is damaged"),
                                    HasSubstr("step-00000002/"), HasSubstr("continuing from step-00000001"))))
          << file << " " << damage;
    }
  }
}

TEST_F(CheckpointTest, ChecksumsAreNamedWhenTheyDiffer) {
  save(1);
  std::ofstream(folder(1) / "state.json", std::ios::in | std::ios::out).seekp(3).put('#');
  EXPECT_THAT(error_of([&] { checkpoints().load_latest(); }),
              AllOf(HasSubstr("no checkpoint in"), HasSubstr("state.json: its checksum is"),
                    HasSubstr("expected"), HasSubstr("Move them away")));
}

// The state is believed only as far as it is well formed, even when its checksum is right.
TEST_F(CheckpointTest, MalformedStateIsRefused) {
  const std::string good = render_state({.step = 3});
  EXPECT_EQ(parse_state(good, "s").step, 3);
  std::string older = good;  // did not say what it was made with
  older.erase(older.find("  \"made_with\": {},\n"), std::string("  \"made_with\": {},\n").size());
  EXPECT_EQ(parse_state(older, "s"), parse_state(good, "s"));
  EXPECT_THAT(error_of([] { parse_state("[]", "s"); }), HasSubstr("s: not a JSON object"));
  EXPECT_THAT(error_of([] { parse_state(R"({"format":2})", "s"); }), HasSubstr("format 2, expected 1"));
  EXPECT_THAT(error_of([] { parse_state(R"({"format":1,"data":{},"extra":{}})", "s"); }),
              HasSubstr("'step' is missing"));
  for (const auto& [from, to] :
       {std::pair("\"step\": 3", "\"step\": -3"), std::pair("\"step\": 3", "\"step\": 1e3"),
        std::pair("\"step\": 3", "\"step\": 9223372036854775808"),
        std::pair("\"epoch\": 0", "\"epoch\": \"0\""), std::pair("\"extra\": {}", "\"extra\": 1"),
        std::pair("\"made_with\": {}", "\"made_with\": 1"),
        std::pair("\"made_with\": {}", "\"made_with\": {\"a\": 1}"),
        std::pair("\"loss_scale\": 1.0", "\"loss_scale\": null")}) {
    std::string bad = good;
    ASSERT_NE(bad.find(from), std::string::npos) << from << " in " << good;
    bad.replace(bad.find(from), std::string(from).size(), to);
    EXPECT_NE(error_of([&] { parse_state(bad, "s"); }), "no error") << to;
  }
  EXPECT_THAT(error_of([] { render_state({.extra = "[1]"}); }), HasSubstr("not a JSON object"));
}

TEST_F(CheckpointTest, WhatAKilledWriterLeavesIsIgnoredAndCleanedUp) {
  save(1);
  // Killed between writing and renaming: all there, but not under its name.
  fs::copy(folder(1), run_ / "checkpoints/.incoming-step-00000002");
  EXPECT_EQ(loaded_step(), 1);
  EXPECT_THAT(checkpoints().steps(), ElementsAre(1));
  save(2);
  EXPECT_THAT(names(), ElementsAre("step-00000001", "step-00000002"));
  EXPECT_EQ(loaded_step(), 2);
  // Killed while it removed, and while it wrote another step than the next.
  fs::copy(folder(1), run_ / "checkpoints/.outgoing-step-00000000");
  fs::copy(folder(1), run_ / "checkpoints/.incoming-step-00000007");
  save(3);
  EXPECT_THAT(names(), ElementsAre("step-00000001", "step-00000002", "step-00000003"));
}

void limit_file_size(rlim_t bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  setrlimit(RLIMIT_FSIZE, &limit);
}

TEST_F(CheckpointTest, AWriterKilledInTheMiddleLeavesThePreviousOne) {
  save(1);
  const pid_t child = fork();
  if (child == 0) {
    limit_file_size(2000);  // the default action of SIGXFSZ ends the process inside write()
    signal(SIGXFSZ, SIG_DFL);
    save(2);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(names(), ElementsAre(".incoming-step-00000002", "step-00000001"));
  EXPECT_EQ(loaded_step(), 1);
  save(2);
  EXPECT_THAT(names(), ElementsAre("step-00000001", "step-00000002"));
}

TEST_F(CheckpointTest, AFailedWriteIsCleanedUpAndExplained) {
  save(1);
  signal(SIGXFSZ, SIG_IGN);
  limit_file_size(2000);
  const std::string message = error_of([&] { save(2); });
  limit_file_size(RLIM_INFINITY);
  EXPECT_THAT(message,
              AllOf(HasSubstr("step-00000002 was not written"), HasSubstr("model.safetensors: cannot write"),
                    HasSubstr("File too large"), HasSubstr("It needs 7.8"),
                    HasSubstr("The previous checkpoint, step-00000001, is intact")));
  EXPECT_THAT(names(), ElementsAre("step-00000001"));
  EXPECT_EQ(loaded_step(), 1);
}

TEST_F(CheckpointTest, AFullDiskIsCleanedUpAndExplained) {
  // In a mount namespace of our own, so that nothing is left behind however the test ends.
  const bool mounted = unshare(CLONE_NEWNS) == 0 &&
                       mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                       mount("tmpfs", run_.c_str(), "tmpfs", 0, "size=256k") == 0;
  if (!mounted) {
    GTEST_SKIP()
        << "mounting a small file system is not permitted here; AFailedWriteIsCleanedUp covers the same path";
  }
  save(1);
  const std::string message = error_of([&] { save(2, 3, 100'000); });
  EXPECT_THAT(message, AllOf(HasSubstr("No space left on device"), HasSubstr("It needs 781."),
                             HasSubstr("step-00000001, is intact")));
  EXPECT_THAT(names(), ElementsAre("step-00000001"));
  EXPECT_EQ(loaded_step(), 1);
  save(3);  // there is still room for a small one
  EXPECT_EQ(loaded_step(), 3);
  EXPECT_EQ(umount(run_.c_str()), 0);
}

TEST_F(CheckpointTest, AFolderThatCannotBeMadeIsExplained) {
  std::ofstream(run_ / "checkpoints") << "a file in the way";
  EXPECT_THAT(error_of([&] { save(1); }),
              AllOf(HasSubstr("was not written"), HasSubstr("no earlier checkpoint")));
  EXPECT_THAT(error_of([&] { checkpoints().load_latest(); }), HasSubstr("cannot list the checkpoints"));
}

}  // namespace
}  // namespace trireme
