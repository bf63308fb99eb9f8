// Where a secret may come from, and what is refused.
#include "trireme/comm/wire/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

using testing::HasSubstr;

class SecretFile : public testing::Test {
 protected:
  SecretFile() { std::filesystem::create_directories(folder_); }
  ~SecretFile() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& content, mode_t mode = 0600) {
    const std::string path = folder_ + "/secret";
    std::filesystem::remove(path);
    std::ofstream(path) << content;
    chmod(path.c_str(), mode);
    return path;
  }
  static std::string error_of(const std::string& path) {
    try {
      Secret::from_file(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  const std::string folder_ = testing::TempDir() + "trireme_secret_" + std::to_string(getpid());
};

bool equal(const Secret& a, const Secret& b) {
  return std::equal(a.key().begin(), a.key().end(), b.key().begin());
}

const std::string kText = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

TEST_F(SecretFile, ContentDecidesLineEndDoesNot) {
  const Secret one = Secret::from_file(write(kText));
  EXPECT_TRUE(equal(one, Secret::from_file(write(kText + "\r\n"))));
  EXPECT_FALSE(equal(one, Secret::from_file(write(kText + "x"))));
}

TEST_F(SecretFile, OpenToOthersIsRefused) {
  for (mode_t mode : {0640, 0604, 0620, 0644})
    EXPECT_THAT(error_of(write(kText, mode)), HasSubstr("chmod 600"));
}

// Who owns it could change it under us, and knows it.
TEST_F(SecretFile, AnotherUsersIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  const std::string path = write(kText);
  constexpr uid_t kOther = 65534;
  ASSERT_EQ(chown(path.c_str(), kOther, static_cast<gid_t>(-1)), 0);
  EXPECT_THAT(error_of(path), HasSubstr("belongs to user 65534, and this is user 0"));
}

TEST_F(SecretFile, ShortLongAbsentAndOddAreRefused) {
  EXPECT_THAT(error_of(write(std::string(31, 'a') + "\n   ")), HasSubstr("holds 31 bytes"));
  EXPECT_THAT(error_of(write("")), HasSubstr("holds 0 bytes"));
  EXPECT_THAT(error_of(write(std::string(5000, 'a'))), HasSubstr("more than 4096"));
  EXPECT_THAT(error_of(folder_ + "/none"), HasSubstr("No such file"));
  EXPECT_THAT(error_of(folder_), HasSubstr("not a regular file"));
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(error_of(pipe), HasSubstr("not a regular file"));
}

TEST(Secret, GoesThroughADescriptorAsOftenAsWanted) {
  const Secret secret = Secret::generate();
  EXPECT_FALSE(equal(secret, Secret::generate()));
  const int descriptor = secret.to_descriptor();
  const int second = dup(descriptor);  // shares the position, as an inherited one does
  EXPECT_TRUE(equal(secret, Secret::from_descriptor(descriptor)));
  EXPECT_TRUE(equal(secret, Secret::from_descriptor(second)));
  EXPECT_THROW(Secret::from_descriptor(second), Error) << "it is closed by now";
}

// Among so many keys are some that end in a byte which text readers take for a space.
TEST(Secret, GoesThroughTextWhateverItsBytes) {
  for (int i = 0; i < 1000; ++i) {
    const Secret secret = Secret::generate();
    ASSERT_TRUE(equal(secret, Secret::from_text(secret.to_text(), "text")));
  }
}

TEST(Secret, ComesFromAPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], kText.data(), kText.size()), static_cast<ssize_t>(kText.size()));
  close(ends[1]);
  const Secret secret = Secret::from_descriptor(ends[0]);
  EXPECT_NE(secret.key()[0] | secret.key()[1] | secret.key()[2], 0);
}

}  // namespace
}  // namespace trireme::comm
