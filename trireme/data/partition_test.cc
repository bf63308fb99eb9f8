// Every sample is one rank's; ranks have different classes or texts; and a loader draws from its own alone.
#include "trireme/data/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tests/support/error_of.h"
#include "trireme/data/loader.h"
#include "trireme/data/open_data.h"
#include "trireme/data/test_files.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

// Sample i of any epoch is the number i, of the group that was given for it.
class Grouped final : public DataSet {
 public:
  explicit Grouped(std::vector<int64_t> groups) : groups_(std::move(groups)) {}
  int64_t size() const override { return std::ssize(groups_); }
  std::span<const SampleTensor> tensors() const override { return tensors_; }
  void write(int64_t, int64_t index, int64_t row, Batch& batch) const override {
    batch.tensors[0].second.row<int32_t>(row)[0] = static_cast<int32_t>(index);
  }
  void write_padding(int64_t, Batch&) const override {}
  int64_t group(int64_t index) const override { return groups_[index]; }

 private:
  std::vector<int64_t> groups_;
  std::vector<SampleTensor> tensors_{{"labels", DType::i32, Shape{}}};
};

Grouped random_groups(int64_t samples, int64_t groups, uint64_t seed) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < samples; ++i)
    result.push_back(static_cast<int64_t>(uniform_integer({seed, 1}, static_cast<uint64_t>(i), groups)));
  return Grouped(std::move(result));
}

// They would be given stretches of it as if those were different.
TEST(DataPartition, OneClassCanNotBeDealt) {
  const Grouped data(std::vector<int64_t>(40, 0));
  EXPECT_THAT(error_of([&] { partitioned(data, DataPartition::kClass, 4); }),
              HasSubstr("all 40 samples of this data are of one class or text"));
  EXPECT_EQ(partitioned(data, DataPartition::kClass, 1).size(), 1u);
  EXPECT_THAT(error_of([] { data_partition("classes"); }),
              HasSubstr("iid, class, role or dirichlet expected"));
}

TEST(DataPartition, GivesEverySampleToOneRank) {
  for (const auto& [samples, groups, ranks] :
       {std::tuple{1000, 10, 4}, {1000, 10, 3}, {997, 50, 8}, {64, 12, 12}}) {
    const Grouped data = random_groups(samples, groups, static_cast<uint64_t>(samples));
    for (const DataPartition how : {DataPartition::kClass, DataPartition::kRole, DataPartition::kDirichlet}) {
      const auto parts = partitioned(data, how, ranks);
      ASSERT_EQ(std::ssize(parts), ranks);
      std::set<uint32_t> seen;
      for (const auto& part : parts) {
        EXPECT_TRUE(std::ranges::is_sorted(part));
        for (const uint32_t sample : part) EXPECT_TRUE(seen.insert(sample).second) << sample << " twice";
      }
      EXPECT_EQ(std::ssize(seen), samples);
      EXPECT_EQ(*seen.rbegin(), static_cast<uint32_t>(samples - 1));
    }
  }
}

TEST(DataPartition, ByClassIsEvenAndByRoleKeepsRolesWhole) {
  const Grouped data = random_groups(1000, 10, 3);
  std::map<int64_t, std::set<size_t>> owners;
  const auto by_class = partitioned(data, DataPartition::kClass, 4),
             by_role = partitioned(data, DataPartition::kRole, 4);
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(by_class[rank].size(), 250u);
    std::set<int64_t> classes;
    for (const uint32_t sample : by_class[rank]) classes.insert(data.group(sample));
    EXPECT_LE(classes.size(), 4u);  // of 10, about as many as 250 samples have
    for (const uint32_t sample : by_role[rank]) owners[data.group(sample)].insert(rank);
  }
  EXPECT_EQ(owners.size(), 10u);
  for (const auto& [role, ranks] : owners) EXPECT_EQ(ranks.size(), 1u) << role;
}

// The longest first, each to the rank that has least: of 1, 1, 1 and 3 samples 3 and 3, not 2 and 4.
TEST(DataPartition, ByRoleIsAsEvenAsRolesAllow) {
  const Grouped data({0, 1, 2, 3, 3, 3});
  const auto parts = partitioned(data, DataPartition::kRole, 2);
  EXPECT_THAT(parts[0], ::testing::ElementsAre(3, 4, 5));
  EXPECT_THAT(parts[1], ::testing::ElementsAre(0, 1, 2));
}

// The share of a class that a rank of K gets has the mean 1/K and the variance (1/K)(1 − 1/K) / (Kα + 1).
TEST(DataPartition, ByDirichletHasTheSharesOfItsParameter) {
  constexpr int64_t kClasses = 1000, kEach = 200, kRanks = 4;
  std::vector<int64_t> classes;
  for (int64_t i = 0; i < kClasses * kEach; ++i) classes.push_back(i % kClasses);
  const Grouped data(std::move(classes));
  for (const double alpha : {0.1, 1.0, 20.0}) {
    const auto parts = partitioned(data, DataPartition::kDirichlet, kRanks, {alpha, 5});
    for (const auto& part : parts) {
      std::vector<double> shares(kClasses);
      for (const uint32_t sample : part) shares[data.group(sample)] += 1.0 / kEach;
      double sum = 0, squares = 0;
      for (const double share : shares) {
        sum += share;
        squares += share * share;
      }
      const double mean = sum / kClasses, expected = 0.25 * 0.75 / (kRanks * alpha + 1);
      EXPECT_NEAR(mean, 0.25, 5 * std::sqrt(expected / kClasses)) << alpha;
      EXPECT_NEAR(squares / kClasses - mean * mean, expected, 0.2 * expected) << alpha;
    }
    EXPECT_EQ(partitioned(data, DataPartition::kDirichlet, kRanks, {alpha, 5}), parts);
    EXPECT_NE(partitioned(data, DataPartition::kDirichlet, kRanks, {alpha, 6}), parts);
  }
}

TEST(DataPartition, OfNothingIsRefused) {
  EXPECT_TRUE(partitioned(random_groups(10, 2, 1), DataPartition::kIid, 3).empty());
  EXPECT_THAT(error_of([] {
                partitioned(Grouped({-1, -1}), DataPartition::kClass, 2);
              }),
              HasSubstr("does not say of what they are"));
  EXPECT_THAT(error_of([] { partitioned(random_groups(10, 2, 1), DataPartition::kRole, 3); }),
              HasSubstr("without samples"));
  EXPECT_THAT(error_of([] { partitioned(random_groups(10, 2, 1), DataPartition::kDirichlet, 20); }),
              HasSubstr("without samples"));
}

// Each epoch of its own once, wherever the rank's rows are in a batch; and again the same from a position on.
TEST(DataPartition, ALoaderDrawsFromItsOwn) {
  const auto data = std::make_shared<Grouped>(random_groups(40, 4, 7));
  const auto parts = partitioned(*data, DataPartition::kClass, 2);
  for (size_t rank = 0; rank < 2; ++rank) {
    const LoaderOptions options{.batch = 8,
                                .seed = 1,
                                .parts = {{static_cast<int64_t>(rank) * 4, 4}},
                                .own = parts[rank],
                                .prefetch = static_cast<int>(rank)};
    Loader loader(data, options);
    std::vector<std::vector<int32_t>> batches;
    DataPosition after_three;
    for (int step = 0; step < 15; ++step) {
      if (step == 3) after_three = loader.position();
      const auto rows = loader.next().at("labels").values<int32_t>();
      batches.emplace_back(rows.begin(), rows.end());
    }
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::vector<uint32_t> seen;
      for (int i = 0; i < 5; ++i)
        seen.insert(seen.end(), batches[epoch * 5 + i].begin(), batches[epoch * 5 + i].end());
      std::ranges::sort(seen);
      EXPECT_EQ(seen, parts[rank]);
    }
    EXPECT_NE(batches[0], batches[5]);
    Loader again(data, options);
    again.seek(after_three);
    for (int step = 3; step < 15; ++step) {
      const auto rows = again.next().at("labels").values<int32_t>();
      EXPECT_EQ(std::vector<int32_t>(rows.begin(), rows.end()), batches[step]);
    }
  }
  EXPECT_THAT(error_of([&] { Loader(data, {.batch = 8, .own = {40}}); }), HasSubstr("outside the data set"));
}

// Of a folder of texts, each window is of the one that its middle is in.
TEST(DataPartition, OfTextsIsByFile) {
  const TempFolder folder;
  folder.write("a.txt", std::string(64, 'a'));
  folder.write("b.txt", std::string(128, 'b'));
  folder.write("c.txt", std::string(64, 'c'));
  DataOptions options;
  options.path = folder.path().string();
  options.kind = "text";
  options.seq = 16;
  options.validation = 0;
  const OpenedData data = open_data(options);
  ASSERT_EQ(data.train->size(), 15);
  for (int64_t i = 0; i < data.train->size(); ++i)
    EXPECT_EQ(data.train->group(i), i < 4 ? 0 : i < 12 ? 1 : 2) << i;
}

}  // namespace
}  // namespace trireme
