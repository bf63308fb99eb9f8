#include "trireme/runtime/file_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "tests/support/temp_folder.h"
#include "trireme/base/error.h"

namespace trireme {
namespace {

class FileStatesTest : public testing::Test {
 protected:
  const TempFolder scratch_;
  const std::string folder_ = scratch_.path();
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  std::array<std::byte, 64> memory_{};  // two slots of 32 bytes
  FileStates::Group group(int number) {
    const int slot = number % 2;
    return {slot, memory_.data() + size_t{32} * slot, 32, size_t{32} * number};
  }
};

TEST_F(FileStatesTest, GroupsTakeSlotsInTurn) {
  FileStates files(folder_, {group(0), group(1), group(2)}, 2, *device_);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));  // nobody else sees it
  for (int g = 0; g < 3; ++g) {
    const std::array<char, 4> text{'g', static_cast<char>('0' + g), 'x', 'x'};
    files.write(g, 4, text.data(), text.size());
  }
  const auto in_memory = [&](int slot) {
    return std::string(reinterpret_cast<const char*>(memory_.data()) + 32 * slot + 4, 2);
  };
  files.start_read(0);
  files.start_read(1);
  files.expect(0);
  files.expect(1);
  EXPECT_EQ(in_memory(0) + in_memory(1), "g0g1");
  std::memcpy(memory_.data() + 4, "G0", 2);
  files.start_write(0);
  files.start_read(2);  // behind the write, in the same slot
  files.expect(2);
  EXPECT_EQ(in_memory(0), "g2");
  files.expect(0);  // nobody asked for it
  EXPECT_EQ(in_memory(0), "G0");
  // What is written from outside is seen by who has the group in memory, and by who reads it later.
  files.write(0, 4, "H0", 2);
  EXPECT_EQ(in_memory(0), "H0");
  files.expect(2);
  std::array<char, 2> read{};
  files.read(0, 4, read.data(), read.size());
  EXPECT_EQ(std::string(read.data(), 2), "H0");
  // What is made anew is not read before, and seen before it is stored.
  files.take(0);
  std::memcpy(memory_.data() + 4, "I0", 2);
  files.read(0, 4, read.data(), read.size());
  EXPECT_EQ(std::string(read.data(), 2), "I0");
  files.start_write(0);
  files.expect(2);
  files.expect(0);
  EXPECT_EQ(in_memory(0), "I0");
}

TEST_F(FileStatesTest, SaysWhatIsWrongWithTheFolder) {
  const auto complaint = [&](const std::string& folder, size_t bytes) -> std::string {
    try {
      FileStates files(folder, {{0, memory_.data(), bytes, 0}}, 1, *device_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(complaint(folder_ + "/none", 8),
              testing::AllOf(testing::HasSubstr("/none: No such file"), testing::HasSubstr("offload")));
  EXPECT_THAT(complaint(folder_, size_t{1} << 60), testing::HasSubstr("no room for"));
  EXPECT_THAT(complaint("", 8), testing::HasSubstr("that is where the device 'cpu' computes"));
}

}  // namespace
}  // namespace trireme
