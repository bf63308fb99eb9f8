// What ranks must have in common, and what a run that goes on should: told by name, with all values.
#include "trireme/run/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "trireme/comm/context.h"
#include "trireme/run/config_fields.h"
#include "trireme/run/resume_check.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> complaints(const std::vector<Facts>& facts) {
  std::vector<std::string> said(facts.size());
  comm::run_rank_threads(static_cast<int>(facts.size()), [&](comm::Context& context) {
    comm::Group world = context.world();
    const auto rank = static_cast<size_t>(context.rank());
    said[rank] = error_of([&] { require_agreement(facts[rank], world); });
  });
  return said;
}

TEST(Agreement, OriginsAreNotCompared) {
  EXPECT_THAT(complaints({{{"a", "1", "default"}}, {{"a", "1", "command line"}}}), Each("no error"));
}

TEST(Agreement, EveryDifferenceIsNamedOnce) {
  const auto said = complaints({{{"a", "1", "default"}, {"b", "x"}, {"c", "same"}},
                                {{"a", "1", "default"}, {"b", "a longer text"}, {"c", "same"}},
                                {{"a", "2", "my.toml:3"}, {"b", "x"}, {"c", "same"}},
                                {{"a", "1"}, {"b", "x"}, {"c", "same"}, {"d", "of another program"}}});
  EXPECT_THAT(said[0], AllOf(HasSubstr("a is 1 on ranks 0, 1 and 3 (default), 2 on rank 2 (my.toml:3)"),
                             HasSubstr("b is x on ranks 0, 2 and 3, a longer text on rank 1"),
                             HasSubstr("d is not there on ranks 0, 1 and 2, of another program on rank 3"),
                             Not(HasSubstr("same on"))));
  EXPECT_THAT(said[3], HasSubstr("rank 0 says what differs"));
}

TEST(Agreement, AllSettingsAreFactsButForTheLocalOnes) {
  ResolvedConfig resolved;
  const Facts facts = facts_of(resolved, {});
  size_t local = 0;
  for (const Field& field : config_fields(resolved.config)) {
    const bool is_fact = std::ranges::find(facts, field.name, &Fact::name) != facts.end();
    const bool is_local = std::ranges::find(local_settings(), field.name) != local_settings().end();
    EXPECT_NE(is_fact, is_local) << field.name;
    local += is_local ? 1 : 0;
  }
  EXPECT_EQ(local, local_settings().size()) << "a name that no setting has";
  ASSERT_NE(std::ranges::find(facts, "plan", &Fact::name), facts.end());
  EXPECT_THAT(std::ranges::find(facts, "program", &Fact::name)->value, HasSubstr("XXH64"));
}

class Numbers : public DataSet {
 public:
  explicit Numbers(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  std::span<const SampleTensor> tensors() const override { return {}; }
  void write(int64_t, int64_t, int64_t, Batch&) const override {}
  void write_padding(int64_t, Batch&) const override {}

 private:
  int64_t size_;
};

// What is held out counts too: ranks would add up losses of different samples.
TEST(Agreement, DataIsComparedByItsContents) {
  const auto train = std::make_shared<Numbers>(10), held_out = std::make_shared<Numbers>(4),
             less = std::make_shared<Numbers>(3);
  const OpenedData data{.train = train, .validation = held_out, .train_hash = 1, .validation_hash = 2};
  const auto complaint = [&](const OpenedData& other) {
    return complaints({facts_of(data), facts_of(other)})[0];
  };
  OpenedData other = data;
  EXPECT_EQ(complaint(other), "no error");
  other.validation_hash = 3;
  EXPECT_THAT(complaint(other), AllOf(HasSubstr("held-out data is"), Not(HasSubstr("training data"))));
  other = data;
  other.validation = less;
  EXPECT_THAT(complaint(other), HasSubstr("held-out data is"));
  other.validation = nullptr;
  EXPECT_THAT(complaint(other), HasSubstr("none on rank 1"));
  other = data;
  other.train_hash = 3;
  EXPECT_THAT(complaint(other), AllOf(HasSubstr("training data is"), Not(HasSubstr("held-out data"))));
}

TEST(ResumeCheck, SortsWhatChanged) {
  const TrainState saved{.seed = 1,
                         .made_with = {{"train.seed", "1"},
                                       {"optim.lr", "0.1"},
                                       {"run.keep", "2"},
                                       {"model.seq", "8"},
                                       {"gone", "since"},
                                       {"training data", "a"}}};
  const Facts now = {{"train.seed", "1"}, {"optim.lr", "0.2"},    {"run.keep", "3"},
                     {"new", "since"},    {"training data", "b"}, {"model.seq", "8"}};
  const ResumeChanges changes = changes_since(saved, now);
  EXPECT_THAT(changes.told, ElementsAre("optim.lr was 0.1 and is 0.2"));
  EXPECT_THAT(changes.refused, ElementsAre("training data was a and is b"));
}

TEST(ResumeCheck, AnOlderCheckpointIsComparedByItsSeed) {
  const Facts now = {{"train.seed", "2"}, {"optim.lr", "0.2"}};
  EXPECT_THAT(changes_since({.seed = 1}, now).refused, ElementsAre("train.seed was 1 and is 2"));
  EXPECT_THAT(changes_since({.seed = 2}, now).refused, IsEmpty());
  EXPECT_THAT(changes_since({.seed = 1}, now).told, IsEmpty());
}

}  // namespace
}  // namespace trireme
