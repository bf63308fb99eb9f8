// `trireme inspect` on files made here: whole ones, damaged ones, and those that a killed writer leaves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/cli/command.h"
#include "trireme/cli/run_metrics.h"
#include "trireme/ir/text.h"
#include "trireme/ops/table.h"

namespace trireme::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class InspectTest : public ::testing::Test {
 protected:
  InspectTest() { fs::create_directories(folder_); }
  ~InspectTest() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  // Exit code and what was printed.
  static std::pair<int, std::string> run(const std::vector<std::string>& arguments) {
    ::testing::internal::CaptureStdout();
    try {
      const int code = inspect(arguments);
      return {code, ::testing::internal::GetCapturedStdout()};
    } catch (const Error&) {
      ::testing::internal::GetCapturedStdout();  // ends the capture
      throw;
    }
  }
  std::string save_checkpoint() {
    float weight[6] = {1, 2, 3, 4, 5, 6};
    const PartView tensor{"w.weight", {weight, DType::f32, {2, 3}}, all_of({2, 3})};
    const PartView moment{"m.w.weight", {weight, DType::f32, {2, 3}}, all_of({2, 3})};
    return Checkpoints(folder_, 2).save({.step = 7, .seed = 3}, {&tensor, 1}, {&moment, 1});
  }

  const fs::path folder_ = fs::temp_directory_path() / ("trireme_inspect_test_" + std::to_string(getpid()));
};

TEST_F(InspectTest, ExchangeHasARowForEveryMethod) {
  const std::string plan =
      write("plan.json", R"({"mesh": "data:4", "exchange": {"method": "top_k", "ratio": 0.5}})");
  const auto [code, text] =
      run({"exchange", "--plan", plan, "--model.layers=1", "--model.seq=8", "--train.batch=4"});
  EXPECT_EQ(code, kOk);
  EXPECT_THAT(text, HasSubstr("| the plan's own |"));
  for (const char* row :
       {"| dense |", "| top_k feedback=1 ratio=0.01 code=none |", "| dgc ", "| power_sgd rank=2 |",
        "| one_bit |", "| threshold ", "| terngrad ", "| qsgd ", "| signum momentum=0.9 |", "| atomo ",
        "| shared_pattern ", "| pruned_ring ratio=0.01 |", "| d_psgd staleness=0 graph=ring |", "| ad_psgd ",
        "| sgp ", "| local steps=8 |", "| fedavg ", "| diloco ", "| delayed "})
    EXPECT_THAT(text, HasSubstr(row));
}

TEST_F(InspectTest, CollectivesHasARowForEveryAlgorithm) {
  const auto [code, text] = run({"collectives", "-n", "4", "--bytes", "1M", "--link", "home"});
  EXPECT_EQ(code, kOk);
  for (const char* row : {"| `naive` | 1 | 12 n | 3 n | 3 |", "| `ring` | 6 | 6 n | 1.5 n | 1 |",
                          "| `linear` | 6 | 6 n | 2 n | 2 |", "| `tree` |", "| `reduce_scatter_gather` |"})
    EXPECT_THAT(text, HasSubstr(row));
}

TEST_F(InspectTest, GraphParsesBackWithItsTableOfCosts) {
  const auto [code, text] = run({"graph", "--cost", "--model.layers=1", "--model.seq=8", "--train.batch=2"});
  EXPECT_EQ(code, kOk);
  EXPECT_THAT(text, HasSubstr("# matmul"));
  EXPECT_THAT(text, HasSubstr("%wte.weight: f32[256,128]"));
  EXPECT_EQ(parse_graph(text, ops()).name, "first");
}

TEST_F(InspectTest, GraphOfEachSegment) {
  for (const char* segment : {"first", "next", "update", "evaluate"}) {
    const auto [code, text] =
        run({"graph", "--segment", segment, "--preset", "resnet20", "--train.accumulate=2"});
    EXPECT_EQ(code, kOk);
    EXPECT_THAT(text, HasSubstr(std::string("graph ") + segment));
  }
  EXPECT_THROW(run({"graph", "--segment", "next"}), Error);
  EXPECT_THROW(run({"graph", "--preset", "resnet"}), Error);
}

TEST_F(InspectTest, ScheduleAsTextAndPicture) {
  const std::string picture = folder_ / "timeline.svg";
  const auto [code, text] =
      run({"schedule", "1f1b", "--stages", "2", "--microbatches", "3", "--svg", picture});
  EXPECT_EQ(code, kOk);
  EXPECT_THAT(text, HasSubstr("stage 0  F0F1....B0--F2B1--..B2--\n"));
  EXPECT_THAT(
      text,
      HasSubstr("# step 12, bubble 25.00 %, 33.33 % of the work\n# stashes of each stage: 2 1; versions of "
                "weights: 1 1\n"));
  std::stringstream svg;
  svg << std::ifstream(picture).rdbuf();
  EXPECT_THAT(svg.str(), HasSubstr("step 12, bubble 25.00 %"));
  // Times are those of a stage, whatever its chunks.
  const auto [done, cut] = run({"schedule", "interleaved", "--stages", "2", "--microbatches", "2",
                                "--chunks=2", "--times", "2,2,2,1"});
  EXPECT_THAT(cut, HasSubstr("stashes of each stage: 2 1.5"));
  EXPECT_THAT(run({"schedule", "pipedream", "--vertical-sync", "--stages=3"}).second,
              HasSubstr("versions of weights: 3 3 3"));
  EXPECT_THROW(run({"schedule", "chimera", "--stages", "3"}), Error);
  EXPECT_THROW(run({"schedule", "1f1"}), Error);
  EXPECT_THROW(run({"schedule", "1f1b", "--svg", folder_ / "nowhere" / "x.svg"}), Error);
  EXPECT_EQ(run({"schedule", "1f1b", "--times", "1,2"}).first, kUsage);
}

TEST_F(InspectTest, ScheduleTableOfAll) {
  const auto [code, text] = run({"schedule", "all", "--stages", "3", "--microbatches", "6"});
  EXPECT_EQ(code, kOk);
  EXPECT_THAT(text, HasSubstr("| `1f1b` | 25.00 % | 33.33 % | 24 | 3 2 1 | 1 1 1 |\n"));
  EXPECT_THAT(text, HasSubstr("| `chimera` | chimera needs an even number of stages"));
  EXPECT_THAT(text, HasSubstr("| `2bw` | "));
}

// Escape sequences would move the cursor, and a new line would look like another tensor.
TEST_F(InspectTest, NamesOfTensorsAreShownWithoutControlCharacters) {
  std::string header =
      R"({"a\u001b[2Jb\nc":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"__metadata__":{"k\u0007":"v\u001b[1m"}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t size = header.size();
  const std::string path = write(
      "x.safetensors", std::string(reinterpret_cast<const char*>(&size), 8) + header + std::string(4, '\0'));
  const auto [code, text] = run({"checkpoint", path});
  EXPECT_EQ(code, kOk);
  EXPECT_THAT(text, HasSubstr("a\ufffd[2Jb c"));
  EXPECT_THAT(text, HasSubstr("k\ufffd = v\ufffd[1m"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST_F(InspectTest, CheckpointByItsPathAndByItsRun) {
  const std::string path = save_checkpoint();
  for (const std::string& name : {path, folder_.string()}) {
    const auto [code, text] = run({"checkpoint", name});
    EXPECT_EQ(code, kOk);
    EXPECT_THAT(text, HasSubstr("step 7, seed 3"));
    EXPECT_THAT(text, HasSubstr("w.weight"));
    EXPECT_THAT(text, HasSubstr("[2,3]"));
    EXPECT_THAT(text, Not(HasSubstr("DAMAGED")));
  }
}

TEST_F(InspectTest, OneSafetensorsFile) {
  const auto [code, text] = run({"checkpoint", save_checkpoint() + "/model.safetensors"});
  EXPECT_EQ(code, kOk);
  EXPECT_THAT(text, HasSubstr("1 tensors, 6 elements"));
}

TEST_F(InspectTest, DamagedCheckpoint) {
  const std::string path = save_checkpoint();
  {
    std::fstream file(path + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('x');
  }
  auto [code, text] = run({"checkpoint", path});
  EXPECT_EQ(code, kFailed);
  EXPECT_THAT(text, HasSubstr("DAMAGED: has other contents"));
  fs::resize_file(path + "/optimizer.safetensors", 10);
  std::tie(code, text) = run({"checkpoint", path});
  EXPECT_THAT(text, HasSubstr("DAMAGED: has 10 bytes"));
  fs::remove(path + "/state.json");
  std::tie(code, text) = run({"checkpoint", path});
  EXPECT_THAT(text, HasSubstr("DAMAGED: is missing"));
}

TEST_F(InspectTest, NoCheckpoint) {
  EXPECT_THROW(run({"checkpoint", folder_ / "none"}), Error);
  EXPECT_THROW(run({"checkpoint", folder_}), Error);
  EXPECT_THROW(run({"checkpoint", write("x.safetensors", "not one")}), Error);
}

TEST_F(InspectTest, RunSummary) {
  std::string lines;
  for (int step = 1; step <= 40; ++step) {
    lines += "{\"step\":" + std::to_string(step) + ",\"loss\":" + std::to_string(5.0 / step) +
             ",\"lr\":0.001,\"grad_norm\":1.5,\"tokens_per_second\":1000,\"step_seconds\":0.25,"
             "\"comm_seconds\":0,\"peak_bytes\":1048576" +
             (step % 20 == 0 ? ",\"validation_loss\":0.3}\n" : "}\n");
  }
  write("metrics.jsonl", lines + "{\"step\":41,\"lo");
  const auto [code, text] = run({"run", folder_});
  EXPECT_EQ(code, kOk);
  EXPECT_THAT(text, HasSubstr("1 to 40, 40 recorded"));
  EXPECT_THAT(text, HasSubstr("first 5.0000, last 0.1250, best 0.1250 at step 40"));
  EXPECT_THAT(text, HasSubstr("tokens/s         1000"));
  EXPECT_THAT(text, HasSubstr("1.0 MiB"));
  EXPECT_THAT(text, HasSubstr("broken lines     1"));
  EXPECT_THAT(text, HasSubstr("validation loss (o)"));
}

TEST_F(InspectTest, MetricsOfAResumedRunAndOfImages) {
  const std::string path =
      write("metrics.jsonl",
            "{\"step\":1,\"loss\":3,\"samples_per_second\":5}\n{\"step\":2,\"loss\":null}\n"
            "{\"step\":1,\"loss\":2,\"samples_per_second\":7}\n[]\n");
  const RunMetrics metrics = read_metrics(path);
  ASSERT_EQ(metrics.loss.size(), 2u);
  EXPECT_EQ(metrics.loss[0].y, 2);
  EXPECT_TRUE(std::isnan(metrics.loss[1].y));
  EXPECT_EQ(metrics.unit, "samples");
  EXPECT_EQ(metrics.broken_lines, 1);
  EXPECT_EQ(run({"run", path}).first, kOk);
}

TEST_F(InspectTest, RunWithoutSteps) {
  EXPECT_THROW(run({"run", folder_}), Error);
  EXPECT_THROW(run({"run", write("metrics.jsonl", "")}), Error);
}

TEST(DrawCurve, FallsFromLeftToRight) {
  const std::string text = draw_curve({{0, 2}, {1, 1}, {2, 0}}, {{2, 2}}, 3, 3);
  EXPECT_EQ(text,
            "        2 |* o\n"
            "        1 | *\n"
            "        0 |  *\n"
            "          +---\n"
            "           0 2\n");
}

TEST(DrawCurve, TakesAnything) {
  EXPECT_EQ(draw_curve({}, {}), "");
  EXPECT_EQ(draw_curve({{0, std::nan("")}}, {}), "");
  EXPECT_THAT(draw_curve({{5, 1}}, {}), HasSubstr("*"));
}

TEST(DrawCurve, TakesNumbersFurtherApartThanADoubleHolds) {
  const std::vector<CurvePoint> line = {{-1.7e308, -1.7e308}, {0, 0}, {1.6e308, 1.7e308}, {1.7e308, 1.7e308}};
  const std::vector<std::string> rows = split(draw_curve(line, {}, /*width=*/21, /*height=*/3), '\n');
  EXPECT_EQ(rows[0], " 1.7e+308 |                   **");
  EXPECT_EQ(rows[1], "        0 |          *");
  EXPECT_EQ(rows[2], "-1.7e+308 |*");
}

}  // namespace
}  // namespace trireme::cli
