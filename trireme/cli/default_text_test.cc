#include "trireme/cli/default_text.h"

#include <gtest/gtest.h>

namespace trireme::cli {
namespace {

TEST(DefaultText, IsTheRepositoryAndNothingElse) {
  EXPECT_EQ(default_text(), TRIREME_SOURCE_DIR);
  EXPECT_EQ(default_text("/nowhere/trireme"), "");
  EXPECT_EQ(default_text("/tmp"), "");  // a folder, but another one
}

}  // namespace
}  // namespace trireme::cli
