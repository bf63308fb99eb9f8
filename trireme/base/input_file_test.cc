// Files that people name: what is none is refused at once, and TOML that would overflow a reader's stack.
#include "trireme/base/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/support/error_of.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class InputFile : public ::testing::Test {
 protected:
  InputFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "trireme_input_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~InputFile() override { std::filesystem::remove_all(folder_); }
  std::string read(const std::string& path) {
    std::string text;
    const std::string error = error_of([&] { text = read_input_file(path, 100'000, "a plan, in JSON"); });
    return error == "no error" ? text : error;
  }
  std::filesystem::path folder_;
};

TEST_F(InputFile, IsReadWhole) {
  const std::string text = std::string(99'000, 'x') + '\0' + "end";
  const std::string path = folder_ / "file";
  std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(read(path), text);
  expect_regular_file(path, "a plan");
  expect_regular_file(folder_ / "absent", "a plan");
}

TEST_F(InputFile, ThatIsTooLargeOrNotThereIsRefused) {
  const std::string path = folder_ / "file";
  std::ofstream(path, std::ios::binary) << std::string(100'001, 'x');
  EXPECT_THAT(read(path), AllOf(HasSubstr("larger than 97.7 KiB"), HasSubstr("a plan, in JSON")));
  EXPECT_THAT(read(folder_ / "absent"), HasSubstr("No such file"));
}

TEST_F(InputFile, WhatIsNoFileIsRefusedAtOnce) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const auto& [path, kind] : {std::pair<std::string, const char*>{pipe, "this is a pipe"},
                                   {"/dev/zero", "this is a device"},
                                   {folder_, "this is a folder"}}) {
    EXPECT_THAT(read(path), HasSubstr(kind));
    EXPECT_THAT(error_of([&] { expect_regular_file(path, "a log"); }),
                AllOf(HasSubstr(kind), HasSubstr("a log")));
  }
}

std::string depth(const std::string& text) {
  return error_of([&] { check_toml_depth(text, "my.toml", "settings"); });
}

TEST(TomlDepth, IsThatOfKeysAlone) {
  std::string numbers = "a = [";
  for (int i = 0; i < 5000; ++i) numbers += "0.25, -1.5e-3,";
  EXPECT_EQ(depth(numbers + "]\nb.c.d = 1.5\n[x.\"y.z\".w]\n"), "no error");
  EXPECT_EQ(depth("# a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a\nb = \"" + std::string(99, '.') + "\"\n"),
            "no error");
  std::string key = "a", quoted = "'a'", spaced = "1";
  for (int i = 0; i < 17; ++i) {
    key += ".a";
    quoted += ".\"a\"";
    spaced += " . 1";
  }
  for (const std::string& one : {key, quoted, spaced})
    EXPECT_THAT(depth("\n\n" + one + " = 1\n"), HasSubstr("my.toml:3: a key with more than 16 dots")) << one;
}

}  // namespace
}  // namespace trireme
