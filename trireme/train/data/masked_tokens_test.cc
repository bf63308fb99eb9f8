// Masked windows: how many tokens are hidden, by what, and that this is a function of (seed, epoch, index).
#include "trireme/train/data/masked_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/train/data/open_data.h"
#include "trireme/train/data/test_files.h"

namespace trireme {
namespace {

using testing::HasSubstr;

constexpr int64_t kSeq = 100;

OpenedData open_masked(const std::string& path, double fraction, int64_t vocab = 0) {
  DataOptions options;
  options.kind = "text";
  options.path = path;
  options.seq = kSeq;
  options.vocab = vocab;
  options.masked_fraction = fraction;
  options.seed = 5;
  return open_data(options);
}

std::string letters(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += static_cast<char>('a' + i % 26);
  return text;
}

Batch batch_of(const DataSet& data, int64_t epoch, int64_t rows) {
  Batch batch;
  batch.rows = rows;
  for (const SampleTensor& tensor : data.tensors()) {
    Shape shape{rows};
    for (int64_t extent : tensor.row) shape.push_back(extent);
    batch.tensors.emplace_back(tensor.name, HostTensor{}).second.reset(tensor.dtype, shape);
  }
  for (int64_t row = 0; row < rows; ++row) data.write(epoch, row, row, batch);
  return batch;
}

TEST(MaskedTokens, FifteenPerCentAreHiddenAndMostOfThemByTheMask) {
  TempFolder folder;
  const OpenedData data = open_masked(folder.write("a.txt", letters(60000)), 0.15);
  EXPECT_EQ(data.vocab, 257) << "the bytes and the mask";
  const int64_t rows = data.train->size();
  Batch batch = batch_of(*data.train, 0, rows);
  const auto ids = batch.tensors[0].second.values<int32_t>(),
             targets = batch.tensors[1].second.values<int32_t>();
  int hidden = 0, masked = 0, kept = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (targets[i] == kIgnoreTarget) {
      EXPECT_LT(ids[i], 256);
      continue;
    }
    EXPECT_GE(targets[i], 'a');
    EXPECT_LE(targets[i], 'z');
    ++hidden;
    masked += ids[i] == 256;
    kept += ids[i] == targets[i];
  }
  const double all = static_cast<double>(ids.size());
  EXPECT_NEAR(hidden / all, 0.15, 0.01);
  EXPECT_NEAR(static_cast<double>(masked) / hidden, 0.8, 0.03);
  EXPECT_NEAR(static_cast<double>(kept) / hidden, 0.1, 0.03);
}

TEST(MaskedTokens, AreAFunctionOfTheEpoch) {
  TempFolder folder;
  const OpenedData data = open_masked(folder.write("a.txt", letters(5000)), 0.15);
  const auto targets = [&](int64_t epoch) {
    Batch batch = batch_of(*data.train, epoch, 4);
    const auto values = batch.tensors[1].second.values<int32_t>();
    return std::vector<int32_t>(values.begin(), values.end());
  };
  EXPECT_EQ(targets(0), targets(0));
  EXPECT_NE(targets(0), targets(1));
}

TEST(MaskedTokens, EveryWindowHasATarget) {
  TempFolder folder;
  const OpenedData data = open_masked(folder.write("a.txt", letters(20000)), 1e-6);
  Batch batch = batch_of(*data.train, 0, data.train->size());
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto targets = batch.tensors[1].second.row<int32_t>(row);
    EXPECT_EQ(std::ranges::count_if(targets, [](int32_t t) { return t != kIgnoreTarget; }), 1);
  }
}

TEST(MaskedTokens, PaddingIsNeverATarget) {
  TempFolder folder;
  const OpenedData data = open_masked(folder.write("a.txt", letters(1500)), 0.5);
  ASSERT_NE(data.validation, nullptr);
  const int64_t last = data.validation->size() - 1;
  Batch batch = batch_of(*data.validation, 0, last + 1);
  const auto targets = batch.tensors[1].second.row<int32_t>(last);
  for (int64_t i = 49; i < kSeq; ++i) EXPECT_EQ(targets[i], kIgnoreTarget) << i;  // 150 tokens, 149 places
}

TEST(MaskedTokens, TheMaskIsNoTokenOfTheText) {
  TempFolder folder;
  const std::string path = folder.write("a.txt", letters(5000));
  EXPECT_EQ(open_masked(path, 0.15, 300).vocab, 300);
  try {
    open_masked(path, 0.15, 'z' + 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("122"));
  }
}

}  // namespace
}  // namespace trireme
