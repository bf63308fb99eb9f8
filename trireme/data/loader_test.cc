// The loader: order, resuming, the last batch, rows of ranks, errors from the background, buffer reuse.
#include "trireme/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "trireme/data/test_files.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

// Sample i of epoch e is the number e * 1000 + i; sample `bad` throws.
class Numbers final : public DataSet {
 public:
  explicit Numbers(int64_t size, int64_t bad = -1) : size_(size), bad_(bad) {}
  int64_t size() const override { return size_; }
  std::span<const SampleTensor> tensors() const override { return tensors_; }
  void write(int64_t epoch, int64_t index, int64_t row, Batch& batch) const override {
    if (index == bad_) throw_error("sample {} is bad", index);
    batch.tensors[0].second.row<int32_t>(row)[0] = static_cast<int32_t>(epoch * 1000 + index);
    ++writes;
  }
  void write_padding(int64_t row, Batch& batch) const override {
    batch.tensors[0].second.row<int32_t>(row)[0] = kIgnoreTarget;
  }
  mutable std::atomic<int64_t> writes = 0;

 private:
  int64_t size_, bad_;
  std::vector<SampleTensor> tensors_{{"labels", DType::i32, Shape{}}};
};

std::vector<int32_t> values(Batch& batch) {
  const auto span = batch.at("labels").values<int32_t>();
  return {span.begin(), span.end()};
}

std::vector<int32_t> take(Loader& loader, int batches) {
  std::vector<int32_t> all;
  for (int i = 0; i < batches; ++i) {
    const std::vector<int32_t> part = values(loader.next());
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(EpochOrder, IsAPermutationThatDependsOnSeedAndEpoch) {
  std::vector<uint32_t> a, b;
  shuffle_epoch(1, 0, 1000, a);
  std::vector<uint32_t> sorted = a;
  std::ranges::sort(sorted);
  for (uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(sorted[i], i);
  EXPECT_NE(a, sorted);
  shuffle_epoch(1, 0, 1000, b);
  EXPECT_EQ(a, b);
  shuffle_epoch(1, 1, 1000, b);
  EXPECT_NE(a, b);
  shuffle_epoch(2, 0, 1000, b);
  EXPECT_NE(a, b);
}

// Each of the 24 orders of four samples comes up about equally often.
TEST(EpochOrder, AllOrdersAreEquallyLikely) {
  std::map<std::vector<uint32_t>, int> counts;
  std::vector<uint32_t> order;
  for (int64_t epoch = 0; epoch < 24000; ++epoch) {
    shuffle_epoch(5, epoch, 4, order);
    ++counts[order];
  }
  ASSERT_EQ(counts.size(), 24u);
  for (const auto& [permutation, count] : counts) EXPECT_NEAR(count, 1000, 160);  // five standard deviations
}

TEST(Loader, WrapsIntoTheNextEpoch) {
  for (const int prefetch : {0, 1, 3}) {
    Loader loader(std::make_shared<Numbers>(10), {.batch = 4, .seed = 3, .prefetch = prefetch});
    std::vector<int32_t> all;
    for (int i = 0; i < 5; ++i) {
      Batch& batch = loader.next();
      EXPECT_EQ(batch.rows, 4);
      EXPECT_EQ(batch.ends_epoch, i == 2 || i == 4) << i;
      EXPECT_EQ(batch.position, (DataPosition{4 * i / 10, 4 * i % 10}));
      EXPECT_EQ(loader.position(), (DataPosition{4 * (i + 1) / 10, 4 * (i + 1) % 10}));
      for (const int32_t value : values(batch)) all.push_back(value);
    }
    std::set<int32_t> seen(all.begin(), all.end());
    EXPECT_EQ(seen.size(), 20u);
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), 1009);
    EXPECT_TRUE(std::all_of(all.begin(), all.begin() + 10, [](int32_t value) { return value < 1000; }));
  }
}

TEST(Loader, BatchMayBeLargerThanTheData) {
  Loader loader(std::make_shared<Numbers>(3), {.batch = 8});
  const auto first = take(loader, 1);
  EXPECT_EQ(std::set<int32_t>(first.begin(), first.end()).size(), 8u);
  EXPECT_EQ(loader.position(), (DataPosition{2, 2}));
}

TEST(Loader, EvaluationPadsTheLastBatch) {
  Loader loader(std::make_shared<Numbers>(5), evaluation(3));
  EXPECT_EQ(values(loader.next()), (std::vector<int32_t>{0, 1, 2}));
  Batch& last = loader.next();
  EXPECT_EQ(values(last), (std::vector<int32_t>{3, 4, kIgnoreTarget}));
  EXPECT_EQ(last.rows, 2);
  EXPECT_TRUE(last.ends_epoch);
  EXPECT_EQ(loader.position(), (DataPosition{1, 0}));
  EXPECT_EQ(values(loader.next()), (std::vector<int32_t>{1000, 1001, 1002}));
}

TEST(Loader, ShortensTheLastBatch) {
  Loader loader(std::make_shared<Numbers>(5),
                {.batch = 3, .order = SampleOrder::sequential, .last = LastBatch::shorten});
  loader.next();
  Batch& last = loader.next();
  EXPECT_EQ(values(last), (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(last.at("labels").shape, Shape{2});
  EXPECT_EQ(values(loader.next()).size(), 3u);
}

// From any position, also within an epoch, and with another batch size, the same samples follow.
TEST(Loader, ResumesExactly) {
  Loader whole(std::make_shared<Numbers>(37), {.batch = 5, .seed = 9});
  const std::vector<int32_t> expected = take(whole, 40);
  for (int done = 0; done < 20; ++done) {
    Loader first(std::make_shared<Numbers>(37), {.batch = 5, .seed = 9});
    take(first, done);
    const DataPosition saved = first.position();
    Loader second(std::make_shared<Numbers>(37), {.batch = 10, .seed = 9, .prefetch = done % 3});
    second.seek(saved);
    EXPECT_EQ(second.position(), saved);
    const std::vector<int32_t> rest = take(second, 5);
    ASSERT_TRUE(std::equal(rest.begin(), rest.end(), expected.begin() + 5 * done)) << done;
    first.seek({0, 0});  // back again, with batches already made ahead
    ASSERT_EQ(take(first, 40), expected);
  }
}

TEST(Loader, RanksMakeTheirRowsOfTheSameBatch) {
  Loader whole(std::make_shared<Numbers>(11), {.batch = 6, .seed = 4});
  Loader low(std::make_shared<Numbers>(11), {.batch = 6, .seed = 4, .parts = {{0, 2}}});
  Loader high(std::make_shared<Numbers>(11), {.batch = 6, .seed = 4, .parts = {{2, 4}}});
  for (int i = 0; i < 7; ++i) {
    std::vector<int32_t> joined = take(low, 1);
    const std::vector<int32_t> rest = take(high, 1);
    joined.insert(joined.end(), rest.begin(), rest.end());
    EXPECT_EQ(joined, take(whole, 1));
    EXPECT_EQ(low.position(), whole.position());
  }
  LoaderOptions padded = evaluation(6);
  padded.parts = {{4, 2}};
  Loader tail(std::make_shared<Numbers>(9),
              padded);  // the second batch has three samples, none in rows 4 and 5
  EXPECT_EQ(take(tail, 2), (std::vector<int32_t>{4, 5, kIgnoreTarget, kIgnoreTarget}));
}

TEST(Loader, ThrowsBackgroundErrorsInOrder) {
  for (const int prefetch : {0, 4}) {
    Loader loader(std::make_shared<Numbers>(10, /*bad=*/5),
                  {.batch = 2, .order = SampleOrder::sequential, .prefetch = prefetch});
    EXPECT_EQ(take(loader, 2), (std::vector<int32_t>{0, 1, 2, 3})) << "batches before the bad one still come";
    for (int again = 0; again < 2; ++again)
      EXPECT_THAT(error_of([&] { loader.next(); }), HasSubstr("sample 5 is bad"));
    EXPECT_EQ(loader.position(), (DataPosition{0, 4}));
    loader.seek({0, 6});
    EXPECT_EQ(take(loader, 1), (std::vector<int32_t>{6, 7}));
  }
}

TEST(Loader, PrefetchIsBoundedAndBuffersAreReused) {
  auto data = std::make_shared<Numbers>(100);
  Loader loader(data, {.batch = 1, .prefetch = 2});
  std::set<const void*> buffers;
  for (int i = 0; i < 50; ++i) {
    buffers.insert(loader.next().at("labels").bytes.data());
    EXPECT_LE(data->writes, i + 1 + 2);
  }
  EXPECT_LE(buffers.size(), 3u);
}

TEST(Loader, RefusesWhatCannotBe) {
  const auto data = std::make_shared<Numbers>(4);
  EXPECT_THAT(error_of([&] { Loader(data, {.batch = 0}); }), HasSubstr("batch is 0"));
  EXPECT_THAT(error_of([&] { Loader(data, {.batch = 4, .parts = {{3, 2}}}); }), HasSubstr("rows [3, 5)"));
  EXPECT_THAT(error_of([&] {
                Loader(data, {.batch = 4, .last = LastBatch::shorten, .parts = {{0, 2}}});
              }),
              HasSubstr("shortened"));
  EXPECT_THAT(error_of([&] { Loader(std::make_shared<Numbers>(0), {}); }), HasSubstr("empty"));
  EXPECT_THAT(error_of([&] { Loader(data, {}).seek({0, 4}); }), HasSubstr("other data"));
  Loader loader(data, {.batch = 1});
  EXPECT_THAT(error_of([&] { loader.next().at("images"); }), HasSubstr("it has: labels"));
}

TEST(Loader, ShowsTheNextBatchOnceItIsMade) {
  Loader loader(std::make_shared<Numbers>(10), {.batch = 2});
  EXPECT_EQ(loader.peek(), nullptr);  // nothing was asked for yet
  loader.next();
  const DataPosition position = loader.position();
  Batch* ahead = loader.peek();
  for (; !ahead; ahead = loader.peek()) std::this_thread::yield();
  EXPECT_EQ(loader.position().index, position.index);
  const std::vector<int32_t> seen = values(*ahead);
  Batch& next = loader.next();
  EXPECT_EQ(&next, ahead);
  EXPECT_EQ(values(next), seen);
}

TEST(Loader, WaitsForBatchesFurtherAhead) {
  Loader loader(std::make_shared<Numbers>(10), {.batch = 2, .prefetch = 3});
  loader.next();
  for (int round = 0; round < 6; ++round) {  // once round the ring and on
    const DataPosition position = loader.position();
    std::vector<std::vector<int32_t>> seen;
    for (int calls = 1; calls <= 3; ++calls) seen.push_back(values(loader.ahead(calls)));
    EXPECT_EQ(loader.position().index, position.index);
    EXPECT_NE(seen[0], seen[1]);
    EXPECT_EQ(values(loader.next()), seen[0]);
    EXPECT_EQ(values(loader.ahead(1)), seen[1]);
    EXPECT_EQ(values(loader.ahead(2)), seen[2]);
  }
}

// A rank that trains one client after another reads the samples of each, in an order of its own, and goes on
// where that client was; also from a position in the middle.
TEST(Loader, ReadsTheSamplesOfOneClientAfterAnother) {
  const auto data = std::make_shared<Numbers>(12);
  const std::vector<std::vector<uint32_t>> clients = {{0, 1, 2}, {5, 7, 9, 11}};
  const auto options = [&](std::vector<std::vector<uint32_t>> samples) {
    return LoaderOptions{.batch = 4, .seed = 3, .parts = {{2, 2}}, .clients = std::move(samples)};
  };
  // Two batches of one, two of the other, and so on.
  LoaderOptions both = options(clients);
  both.turn_of = [](int64_t batch) -> LoaderOptions::Turn {
    return {static_cast<size_t>(batch / 2 % 2), batch / 4 * 2 + batch % 2};
  };
  Loader one(data, options({clients[0]})), other(data, options({clients[1]})), turns(data, both);
  std::vector<std::vector<int32_t>> expected;
  for (int turn = 0; turn < 6; ++turn) expected.push_back(take(turn % 2 == 0 ? one : other, 2));
  DataPosition middle;
  for (int turn = 0; turn < 6; ++turn) {
    if (turn == 3) middle = turns.position();
    EXPECT_EQ(take(turns, 2), expected[static_cast<size_t>(turn)]) << turn;
  }
  turns.seek(middle);
  EXPECT_EQ(take(turns, 2), expected[3]);
}

}  // namespace
}  // namespace trireme
