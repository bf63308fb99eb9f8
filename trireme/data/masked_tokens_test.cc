// Masked windows: how many tokens are hidden, by what, and that this is a function of (seed, epoch, index).
#include "trireme/data/masked_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "trireme/base/error.h"
#include "trireme/data/open_data.h"
#include "trireme/data/test_files.h"

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

// Which token takes the place of a hidden one does not follow from that one does: it may be any.
TEST(MaskedTokens, AnyTokenMayTakeThePlaceOfAHiddenOne) {
  TempFolder folder;
  const OpenedData data = open_masked(folder.write("a.txt", letters(60000)), 0.5);
  Batch batch = batch_of(*data.train, 0, data.train->size());
  const auto ids = batch.tensors[0].second.values<int32_t>(),
             targets = batch.tensors[1].second.values<int32_t>();
  std::array<int, 8> found{};  // of the eighths of all bytes
  int all = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (targets[i] == kIgnoreTarget || ids[i] == 256 || ids[i] == targets[i]) continue;
    ++found.at(static_cast<size_t>(ids[i] / 32));
    ++all;
  }
  ASSERT_GT(all, 2000);  // a tenth of half of all
  for (const int of_eighth : found) EXPECT_NEAR(static_cast<double>(of_eighth) / all, 1.0 / 8, 0.03);
}

// Wherever in a batch a window lies, the same of it is hidden; and of another window something else.
TEST(MaskedTokens, AreAFunctionOfTheWindowNotOfItsRow) {
  TempFolder folder;
  const OpenedData data = open_masked(folder.write("a.txt", letters(5000)), 0.3);
  Batch batch = batch_of(*data.train, 0, 3);
  data.train->write(0, 0, 2, batch);
  for (const auto& [name, tensor] : batch.tensors) {
    const std::span<const int32_t> values(reinterpret_cast<const int32_t*>(tensor.bytes.data()), 3 * kSeq);
    EXPECT_TRUE(std::ranges::equal(values.first(kSeq), values.last(kSeq))) << name;
  }
  const auto places = [&](int64_t row) {
    std::vector<bool> hidden;
    for (const int32_t target : batch.tensors[1].second.row<int32_t>(row))
      hidden.push_back(target != kIgnoreTarget);
    return hidden;
  };
  EXPECT_NE(places(0), places(1));
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

// Written out: a run that goes on has the masks that it would have had, also with a later version.
TEST(MaskedTokens, AreDrawnByPlace) {
  TempFolder folder;
  const OpenedData data = open_masked(folder.write("a.txt", letters(20000)), 0.15);
  constexpr int64_t kEpoch = 3;
  Batch batch = batch_of(*data.train, kEpoch, data.train->size());
  const auto ids = batch.tensors[0].second.values<int32_t>(),
             targets = batch.tensors[1].second.values<int32_t>();
  const RngKey chosen = epoch_key(5, "data.masked", kEpoch), becomes = epoch_key(5, "data.mask", kEpoch);
  int random = 0;
  for (size_t place = 0; place < ids.size(); ++place) {
    ASSERT_EQ(targets[place] != kIgnoreTarget, uniform(chosen, place) < 0.15f) << place;
    if (targets[place] == kIgnoreTarget) continue;
    const float what = uniform(becomes, 2 * place);
    const auto other = static_cast<int32_t>(uniform_integer(becomes, 2 * place + 1, 256));
    ASSERT_EQ(ids[place], what < 0.8f ? 256 : what < 0.9f ? other : targets[place]) << place;
    random += what >= 0.8f && what < 0.9f;
  }
  EXPECT_GT(random, 100);
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
