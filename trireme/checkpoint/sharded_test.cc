// Checkpoints that several processes write and others read, all in parts. The processes are threads here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"
#include "trireme/base/error.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/checkpoint/checkpoint_files.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::vector<float> numbers(int64_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

// How a [6, 8] tensor is cut for `count` writers.
using Cut = std::function<std::vector<std::vector<Part>>(int index, int count)>;
const Shape kWhole{6, 8};
const std::vector<std::pair<const char*, Cut>> kCuts = {
    {"rows",
     [](int i, int n) {
       return std::vector<std::vector<Part>>{{part_of(6, n, i)}, {{0, 8}}};
     }},
    {"columns",
     [](int i, int n) {
       return std::vector<std::vector<Part>>{{{0, 6}}, {part_of(8, n, i)}};
     }},
    {"blocks of columns",
     [](int i, int n) {
       const Part part = part_of(4, n, i);
       return std::vector<std::vector<Part>>{{{0, 6}}, {part, {4 + part.begin, part.size}}};
     }},
};

// A rank's memory of such a tensor.
struct Memory {
  Memory(const Cut& cut, int index, int count) : part{kWhole, cut(index, count)} {
    values.resize(part.shape().elements(), -1.0f);
  }
  void fill() {
    for_each_common_run(all_of(kWhole), part, [&](int64_t from, int64_t to, int64_t elements) {
      std::iota(values.begin() + to, values.begin() + to + elements, static_cast<float>(from));
    });
  }
  PartView view(const char* name) { return {name, {values.data(), DType::f32, part.shape()}, part}; }

  TensorPart part;
  std::vector<float> values;
};

class Sharded : public ::testing::Test {
 protected:
  // Runs the body as each of `count` peers.
  void together(int count, const std::function<void(const CheckpointPeers&)>& body) const {
    std::barrier barrier(count);
    std::atomic<int> noes[2] = {0, 0};  // of this question and of the next
    std::vector<std::thread> threads;
    for (int index = 0; index < count; ++index) {
      threads.emplace_back([&, index] {
        int question = 0;
        body({index, count, [&, question](bool yes) mutable {
                std::atomic<int>& no = noes[question++ % 2];
                if (!yes) ++no;
                barrier.arrive_and_wait();
                const bool all = no == 0;
                barrier.arrive_and_wait();
                no = 0;
                barrier.arrive_and_wait();
                return all;
              }});
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void save(int64_t step, const Cut& cut, int count) const {
    together(count, [&](const CheckpointPeers& peers) {
      Memory weight(cut, peers.index, count), moment(cut, peers.index, count);
      weight.fill();
      moment.fill();
      std::vector<float> whole = numbers(5);
      std::vector<PartView> model = {weight.view("w")};
      if (peers.index == count - 1) model.push_back({"bias", {whole.data(), DType::f32, {5}}, all_of({5})});
      const std::vector<PartView> optimizer = {moment.view("m")};
      Checkpoints(run_, 2, peers).save({.step = step}, model, optimizer);
    });
  }

  const TempFolder scratch_;
  const fs::path run_ = scratch_.path() / "run";
};

TEST_F(Sharded, EveryCutIsReadInEveryOther) {
  for (const auto& written : kCuts) {
    for (const int writers : {1, 3}) {
      save(1, written.second, writers);
      for (const auto& read : kCuts) {
        for (const int readers : {1, 2}) {
          together(readers, [&](const CheckpointPeers& peers) {
            const auto loaded = Checkpoints(run_, 2, peers).load_latest();
            ASSERT_TRUE(loaded);
            Memory found(read.second, peers.index, readers), expected(read.second, peers.index, readers);
            expected.fill();
            std::vector<float> bias(5);
            loaded->model.read_all(std::vector<PartView>{
                found.view("w"), {"bias", {bias.data(), DType::f32, {5}}, all_of({5})}});
            EXPECT_EQ(found.values, expected.values)
                << written.first << " of " << writers << " as " << read.first << " of " << readers;
            EXPECT_EQ(bias, numbers(5));
          });
        }
      }
    }
  }
}

TEST_F(Sharded, FilesAreNamedAsOtherToolsNameThem) {
  save(7, kCuts[0].second, 2);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(run_ / "checkpoints/step-00000007"))
    names.push_back(entry.path().filename());
  EXPECT_THAT(names,
              UnorderedElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                   "model.safetensors.index.json", "optimizer-00001-of-00002.safetensors",
                                   "optimizer-00002-of-00002.safetensors", "optimizer.safetensors.index.json",
                                   "state.json", "checksums.json"));
}

TEST_F(Sharded, AnIndexOfOtherToolsIsRead) {
  fs::create_directories(run_);
  std::vector<float> a = numbers(3), b = numbers(4), found_a(3), found_b(4);
  write_safetensors(run_ / "model-00001-of-00002.safetensors",
                    std::vector<NamedTensor>{{"a", {a.data(), DType::f32, {3}}}});
  write_safetensors(run_ / "model-00002-of-00002.safetensors",
                    std::vector<NamedTensor>{{"b", {b.data(), DType::f32, {2, 2}}}});
  std::ofstream(run_ / "model.safetensors.index.json")
      << R"({"metadata": {"total_size": 28}, "weight_map": {"a": "model-00001-of-00002.safetensors",)"
      << R"( "b": "model-00002-of-00002.safetensors"}})";
  const TensorFiles files(run_ / "model.safetensors.index.json");
  files.read_all(std::vector<NamedTensor>{{"a", {found_a.data(), DType::f32, {3}}},
                                          {"b", {found_b.data(), DType::f32, {2, 2}}}});
  EXPECT_EQ(found_a, a);
  EXPECT_EQ(found_b, b);
}

TEST_F(Sharded, DamageFoundByOnePeerIsToldByAll) {
  save(1, kCuts[0].second, 2);
  save(2, kCuts[0].second, 2);
  const fs::path file = run_ / "checkpoints/step-00000002/optimizer-00002-of-00002.safetensors";
  std::fstream(file, std::ios::in | std::ios::out).seekp(100).put('#');
  together(3, [&](const CheckpointPeers& peers) {
    const auto loaded = Checkpoints(run_, 2, peers).load_latest();
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->state.step, 1);
    EXPECT_THAT(loaded->messages, testing::ElementsAre(AllOf(HasSubstr("optimizer-00002-of-00002"),
                                                             HasSubstr("continuing from step-00000001"))));
  });
}

// A file that the index names but that no checksum guards: nobody can say whether it is what was written.
TEST_F(Sharded, AFileWithoutAChecksumIsRefused) {
  save(1, kCuts[0].second, 2);
  const fs::path folder = run_ / "checkpoints/step-00000001";
  const Checksums all = CheckpointFiles(folder).checksums;
  for (const char* name : {"model-00002-of-00002.safetensors", "optimizer-00001-of-00002.safetensors",
                           "model.safetensors.index.json", "state.json"}) {
    Checksums fewer = all;
    ASSERT_EQ(fewer.erase(name), 1u) << name;
    std::ofstream(folder / "checksums.json") << render_checksums(fewer);
    EXPECT_THAT(error_of([&] { open_checkpoint(folder); }), HasSubstr("no checksum of ")) << name;
  }
  std::ofstream(folder / "checksums.json") << render_checksums(all);
  EXPECT_EQ(open_checkpoint(folder).state.step, 1);
}

TEST_F(Sharded, AFailedShareFailsAllAndLeavesThePreviousOne) {
  save(1, kCuts[0].second, 2);
  for (const bool in_background : {false, true}) {
    together(2, [&](const CheckpointPeers& peers) {
      Memory weight(kCuts[0].second, peers.index, 2);
      std::vector<PartView> model = {weight.view("w")};
      if (peers.index == 1) model.push_back(model[0]);  // equal names can not be written
      Checkpoints checkpoints(run_, 2, peers);
      const std::string message = error_of([&] {
        if (!in_background) return (void)checkpoints.save({.step = 2}, model, {});
        checkpoints.begin({.step = 2}, model, {});
        while (!checkpoints.poll()) std::this_thread::yield();
      });
      EXPECT_THAT(message, HasSubstr("step-00000002 was not written"));
      EXPECT_THAT(message, HasSubstr(peers.index == 1 ? "This rank's share needs" : "another rank failed"));
      EXPECT_FALSE(checkpoints.is_under_way());
    });
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(run_ / "checkpoints"))
      names.push_back(entry.path().filename());
    EXPECT_THAT(names, UnorderedElementsAre("step-00000001"));
  }
}

// All have written before any of them hears that the checkpoint is there.
TEST_F(Sharded, InTheBackgroundItIsThereWhenAllHaveWritten) {
  together(3, [&](const CheckpointPeers& peers) {
    Checkpoints checkpoints(run_, 2, peers);
    for (int64_t step = 1; step <= 5; ++step) {
      Memory weight(kCuts[0].second, peers.index, 3);
      weight.fill();
      checkpoints.begin({.step = step}, std::vector<PartView>{weight.view("w")}, {});
      std::ranges::fill(weight.values, -2.0f);
      while (!checkpoints.poll()) std::this_thread::yield();
      Memory found(kCuts[1].second, peers.index, 3), expected(kCuts[1].second, peers.index, 3);
      expected.fill();
      const auto loaded = checkpoints.load_latest();
      ASSERT_TRUE(loaded);
      EXPECT_EQ(loaded->state.step, step);
      loaded->model.read_all(std::vector<PartView>{found.view("w")});
      EXPECT_EQ(found.values, expected.values);
    }
  });
}

TEST_F(Sharded, SharesThatDoNotHaveEveryElementOnceAreRefused) {
  const Cut all = [](int, int) { return std::vector<std::vector<Part>>{{{0, 5}}, {{0, 8}}}; };
  std::string first;
  together(2, [&](const CheckpointPeers& peers) {
    Memory weight(peers.index == 0 ? kCuts[0].second : all, peers.index, 2);
    const std::vector<PartView> model = {weight.view("w")};
    const std::string message = error_of([&] { Checkpoints(run_, 2, peers).save({.step = 2}, model, {}); });
    if (peers.index == 0) first = message;
  });
  EXPECT_THAT(first, HasSubstr("have the same elements of 'w'"));
}

TEST(TensorIndex, RefusesWhatWasNotWritten) {
  const std::string good = R"({"weight_map": {"a": "f"}, "parts": {"b": {"shape": [4], "pieces": [)"
                           R"({"file": "f", "dims": [[[0, 2]]]}, {"file": "g", "dims": [[[2, 4]]]}]}}})";
  check_complete(parse_index(good, "i"), "i");
  const std::string again = render_index(parse_index(good, "i"));
  EXPECT_EQ(render_index(parse_index(again, "i")), again);
  for (const auto& [from, to, message] : {
           std::tuple("\"a\": \"f\"", "\"a\": \"../f\"", "not in this folder"),
           std::tuple("\"a\": \"f\"", "\"a\": 1", "no text"),
           std::tuple("\"a\": \"f\"", "\"b\": \"f\"", "both whole and in parts"),
           std::tuple("[2, 4]", "[2, 5]", "does not lie within"),
           std::tuple("[2, 4]", "[3, 3]", "does not lie within"),
           std::tuple("[2, 4]", "[3, 4]", "have 3 elements of 4"),
           std::tuple("[2, 4]", "[1, 3]", "have the same elements"),
           std::tuple("[2, 4]", "[-2, 4]", "no number of elements"),
           std::tuple("[[[2, 4]]]", "[[[2, 4]], []]", "has not the dims"),
           std::tuple("\"shape\": [4]", "\"shape\": 4", "no list of extents"),
           std::tuple("weight_map", "weights", "'weight_map' is missing"),
       }) {
    std::string bad = good;
    bad.replace(bad.find(from), std::string(from).size(), to);
    EXPECT_THAT(error_of([&] { check_complete(parse_index(bad, "i"), "i"); }), HasSubstr(message)) << bad;
  }
}

}  // namespace
}  // namespace trireme
