#include "trireme/cli/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "trireme/cli/step_flags.h"

namespace trireme::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SplitSettings, TellsSettingsFromFlagsAndFiles) {
  const std::vector<std::string> arguments = {
      "my.toml", "--train.batch=4", "--json", "out.json", "--model.seq", "32", "model.layers=2"};
  const SplitArguments split = split_settings(arguments);
  EXPECT_THAT(split.own, ElementsAre("my.toml", "--json", "out.json"));
  EXPECT_THAT(split.settings, ElementsAre("--train.batch=4", "--model.seq", "32", "model.layers=2"));
}

std::string refusal(const std::vector<std::string>& arguments) {
  int steps = 0;
  double jitter = 0, timeout = 0;
  std::vector<double> times;
  std::string file;
  CLI::App app("", "trireme test");
  app.add_option("--steps", steps)->check(CLI::PositiveNumber);
  app.add_option("--jitter", jitter)->check(CLI::NonNegativeNumber);
  app.add_option("--timeout", timeout)->type_name("SECONDS")->check(CLI::Range(1.0, 9.0));
  app.add_option("--times", times)->delimiter(',');
  app.add_option("--json", file);
  ::testing::internal::CaptureStderr();
  const std::optional<int> code = parse_arguments(app, arguments);
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, text.empty() ? std::nullopt : std::optional<int>(kUsage));
  return text;
}

std::string refusal_beside_settings(const std::vector<std::string>& arguments) {
  CLI::App app("", "trireme test");
  int ranks = 0;
  std::string links;
  app.add_option("--ranks", ranks);
  app.add_option("--links", links);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(parse_arguments(app, split_settings(arguments)), std::optional<int>(kUsage));
  return ::testing::internal::GetCapturedStderr();
}

TEST(ParseArguments, SuggestsTheSettingThatWasMeant) {
  EXPECT_THAT(refusal_beside_settings({"--steps=5"}), HasSubstr("did you mean '--train.steps'?"));
  EXPECT_THAT(refusal_beside_settings({"--lr", "0.1"}), HasSubstr("did you mean '--optim.lr'?"));
  EXPECT_THAT(refusal_beside_settings({"--layers=5"}), HasSubstr("did you mean '--model.layers'?"));
  EXPECT_THAT(refusal_beside_settings({"--link", "home"}), HasSubstr("did you mean '--links'?"));
  EXPECT_THAT(refusal_beside_settings({"--precisoin=bf16"}), HasSubstr("did you mean '--train.precision'?"));
}

TEST(ParseArguments, TakesWhatIsRight) {
  EXPECT_EQ(refusal({"--steps", "3"}), "");
  EXPECT_EQ(refusal({"--steps=3"}), "");
}

TEST(ParseArguments, SuggestsTheNearestOption) {
  EXPECT_THAT(refusal({"--step", "3"}), HasSubstr("did you mean '--steps'?"));
  EXPECT_THAT(refusal({"--step=3"}), HasSubstr("no option '--step'"));
}

TEST(ParseArguments, RefusesWrongValuesAndExtraArguments) {
  EXPECT_THAT(refusal({"--steps", "0"}), HasSubstr("steps"));
  EXPECT_THAT(refusal({"--steps", "many"}), HasSubstr("many"));
  EXPECT_THAT(refusal({"extra"}), HasSubstr("one argument too many"));
}

// It is in every range, as CLI11 asks.
TEST(ParseArguments, RefusesWhatIsNotANumber) {
  EXPECT_THAT(refusal({"--jitter", "nan"}), HasSubstr("--jitter: nan found, a number expected"));
  EXPECT_THAT(refusal({"--timeout=NaN"}), HasSubstr("--timeout: NaN found"));
  EXPECT_THAT(refusal({"--times", "1,2,-nan"}), HasSubstr("--times: -nan found"));
  EXPECT_EQ(refusal({"--json", "nan", "--jitter", "0.5", "--times", "1,2"}), "");
}

TEST(RunCommandOf, SuggestsTheNearestCommand) {
  const Command commands[] = {
      {"kernels", "", [](std::span<const std::string> a) { return int(a.size()) + 40; }}};
  EXPECT_EQ(run_command_of("bench", commands, std::vector<std::string>{"kernels", "a", "b"}), 42);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_command_of("bench", commands, std::vector<std::string>{"kernel"}), kUsage);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("did you mean 'kernels'?"));
}

TEST(DefaultText, IsTheRepositoryAndNothingElse) {
  EXPECT_EQ(default_text(), TRIREME_SOURCE_DIR);
  EXPECT_EQ(default_text("/nowhere/trireme"), "");
  EXPECT_EQ(default_text("/tmp"), "");  // a folder, but another one
}

}  // namespace
}  // namespace trireme::cli
