// Held to records that TensorBoard's own writer makes; tests/cli/tensorboard_test.py reads a run's whole
// file.
#include "trireme/run/tensorboard_log.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "trireme/data/test_files.h"
#include "trireme/run/job.h"
#include "trireme/run/tensorboard_events.h"

namespace trireme::tensorboard {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return text;
}

TEST(TensorBoardEvents, HaveTheBytesOfItsOwnWriter) {
  EXPECT_EQ(hex(version_record(1)),
            "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a");
  EXPECT_EQ(hex(scalars_record(2, 1, {{"loss", 0.5}})),
            "1a00000000000000129bd82d09000000000000004010012a0d0a0b0a046c6f7373150000003fe20576ce");
  EXPECT_EQ(
      hex(text_record(2, 1, "note", "hi")),
      "2d000000000000003c418afb09000000000000004010012a200a1e0a046e6f7465420c0807120412020801420268694a080a06"
      "0a0474657874de7213a2");
}

// A size of two bytes, as protocol buffers write it.
TEST(TensorBoardEvents, LongTextsHaveLongSizes) {
  const std::string record = text_record(2, 1, "note", std::string(300, 'x'));
  EXPECT_NE(record.find(std::string("\x42\xac\x02") + std::string(300, 'x')), std::string::npos);
}

// A folder where the file can not be is reported once, and the run continues.
TEST(TensorBoardLog, AFolderThatIsGoneEndsNothing) {
  struct Notes : RunObserver {
    void note(const std::string& line) override { lines.push_back(line); }
    std::vector<std::string> lines;
  } notes;
  TempFolder folder;
  folder.write("text.txt", std::string(2000, 'a'));
  class Removes final : public ForwardingObserver {
   public:
    using ForwardingObserver::ForwardingObserver;
    void started(const RunStart& run) override {
      RunStart gone{run};
      gone.folder += "/no such folder";
      ForwardingObserver::started(gone);
    }
  };
  TensorBoardLog log(notes);
  Removes removes(log);
  const ResolvedConfig config = resolve_config(
      {.command_line = {"model.layers=1", "model.hidden=8", "model.heads=1", "model.seq=8", "train.batch=4",
                        "train.steps=2", "train.threads=1", "run.sample_tokens=0",
                        "run.dir=" + (folder.path() / "run").string()}});
  EXPECT_EQ(run_training(config, removes, {.default_text = (folder.path() / "text.txt").string()}), kOk);
  ASSERT_EQ(notes.lines.size(), 1u);
  EXPECT_NE(notes.lines[0].find("continues without a TensorBoard file"), std::string::npos) << notes.lines[0];
}

}  // namespace
}  // namespace trireme::tensorboard
