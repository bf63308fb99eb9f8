// What the key `exchange` is read as: a kind, a pace, and settings.
#include "trireme/plan/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"

namespace trireme {
namespace {

using Kind = Agreement::Kind;
using Pace = Agreement::Pace;
using testing::HasSubstr;
using testing::ThrowsMessage;

Agreement of(ExchangeRule rule, int ranks = 4) {
  return {{std::move(rule)}, ranks};
}

TEST(Agreement, HasAKindAndAPaceForEachMethod) {
  struct Case {
    ExchangeRule rule;
    Kind kind;
    Pace pace;
  };
  const std::vector<Case> cases = {
      {{"all_reduce"}, Kind::kDense, Pace::kInStep},
      {{.method = "all_reduce", .words = {{"wire", "bf16"}}}, Kind::kCompressed, Pace::kInStep},
      {{"top_k"}, Kind::kCompressed, Pace::kInStep},
      {{"local"}, Kind::kAveraged, Pace::kInStep},
      {{"fedavg"}, Kind::kAveraged, Pace::kInStep},
      {{"diloco"}, Kind::kAveraged, Pace::kInStep},
      {{"delayed"}, Kind::kAveraged, Pace::kInStep},
      {{"d_psgd"}, Kind::kMixed, Pace::kInStep},
      {{.method = "d_psgd", .numbers = {{"staleness", 2}}}, Kind::kMixed, Pace::kBounded},
      {{"sgp"}, Kind::kMixed, Pace::kInStep},
      {{"ad_psgd"}, Kind::kMixed, Pace::kOwn},
      {{"server"}, Kind::kServed, Pace::kInStep},
      {{"ssp"}, Kind::kServed, Pace::kBounded},
      {{.method = "ssp", .numbers = {{"staleness", 0}}}, Kind::kServed, Pace::kInStep},
      {{"async_server"}, Kind::kServed, Pace::kOwn},
  };
  for (const Case& one : cases) {
    const Agreement agreement = of(one.rule);
    EXPECT_EQ(agreement.kind(), one.kind) << one.rule.method;
    EXPECT_EQ(agreement.pace(), one.pace) << one.rule.method;
    EXPECT_EQ(agreement.servers() != nullptr, one.kind == Kind::kServed) << one.rule.method;
  }
  for (const ExchangeKind& kind : exchange_kinds())
    EXPECT_EQ(of({std::string(kind.name)}).method(), kind.name);
  EXPECT_TRUE(Agreement().is_dense() && Agreement().is_in_step());
  // One of two rules is enough.
  EXPECT_EQ(Agreement({{"top_k", "h.*"}, {"all_reduce"}}, 2).kind(), Kind::kCompressed);
}

TEST(Agreement, AnswersFromTheSettings) {
  EXPECT_EQ(of({.method = "local", .numbers = {{"steps", 5}}}).period(), 5);
  const Agreement late = of({.method = "delayed", .numbers = {{"delay", 6}, {"period", 3}}});
  EXPECT_EQ(late.period(), 3);
  EXPECT_EQ(late.delay(), 6);
  EXPECT_EQ(of({.method = "fedavg", .numbers = {{"fraction", 0.6}}}).taking_part(5), 3);
  EXPECT_EQ(of({"d_psgd"}).period(), 1);
  EXPECT_EQ(of({.method = "d_psgd", .numbers = {{"staleness", 2}}}).staleness(), 2);
  const Agreement several = of({.method = "async_server", .numbers = {{"servers", 2}, {"stale_rate", 1}}}, 5);
  ASSERT_NE(several.servers(), nullptr);
  EXPECT_EQ(several.servers()->count, 2);
  EXPECT_EQ(several.servers()->workers, 3);
  EXPECT_EQ(several.servers()->updates, Servers::Updates::kArrivals);
  EXPECT_EQ(several.servers()->rate, Servers::Rate::kByStaleness);
  const Agreement epochs = of({.method = "fedavg", .numbers = {{"epochs", 3}}});
  EXPECT_THAT([&] { epochs.period(); }, ThrowsMessage<Error>(HasSubstr("3 epochs")));
  EXPECT_EQ(epochs.with_epochs_as_steps(7).period(), 21);
}

TEST(Agreement, RefusesWhatCanNotBe) {
  EXPECT_THAT([] { of({"gosip"}); }, ThrowsMessage<Error>(HasSubstr("no exchange 'gosip'")));
  EXPECT_THAT([] { of({"server"}, 1); }, ThrowsMessage<Error>(HasSubstr("servers = 1 of 1 ranks")));
  EXPECT_THAT(
      [] {
        Agreement({{"local"}, {"top_k"}}, 2);
      },
      ThrowsMessage<Error>(HasSubstr("beside other rules")));
  EXPECT_THAT([] { of({"local", "h.*"}); }, ThrowsMessage<Error>(HasSubstr("it stands alone")));
}

}  // namespace
}  // namespace trireme
