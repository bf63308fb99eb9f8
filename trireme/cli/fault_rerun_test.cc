// Which command looks for the op that faulted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/cli/command.h"

namespace trireme::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> again(std::vector<std::string> arguments) {
  return debug_arguments(arguments);
}

TEST(FaultRerun, PutsTheDebugOrderInPlaceOfTheDevice) {
  EXPECT_THAT(again({"train", "a.toml", "--train.device=cuda", "--train.steps=3"}),
              ElementsAre("train", "a.toml", "--train.steps=3", "--train.device=cuda_debug"));
  EXPECT_THAT(again({"verify", "--train.device", "cuda", "--random"}),
              ElementsAre("verify", "--random", "--train.device=cuda_debug"));
}

TEST(FaultRerun, HasNoSecondTime) {
  EXPECT_THAT(again({"train", "--train.device=cuda_debug"}), IsEmpty());
  EXPECT_THAT(again({"train", "--train.device", "cuda_debug"}), IsEmpty());
}

TEST(FaultRerun, IsForCommandsThatTrain) {
  EXPECT_THAT(again({"doctor"}), IsEmpty());
  EXPECT_THAT(again({}), IsEmpty());
}

}  // namespace
}  // namespace trireme::cli
