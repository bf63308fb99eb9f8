// Pairs of sources and targets: what is in a file, what becomes of it in a batch, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/data/loader.h"
#include "trireme/data/open_data.h"
#include "trireme/data/pair_samples.h"
#include "trireme/data/test_files.h"

namespace trireme {
namespace pair_data_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int32_t> row_of(Batch& batch, const char* name, int64_t row) {
  const std::span<int32_t> values = batch.at(name).row<int32_t>(row);
  return {values.begin(), values.end()};
}

TEST(Pairs, AreTheLinesOfAFile) {
  const std::vector<PairText> pairs = parse_pairs("one\t1\n\ntwo\t2\r\n\t\nlast\t", "a.tsv");
  ASSERT_EQ(pairs.size(), 4u);
  EXPECT_EQ(pairs[0].source, "one");
  EXPECT_EQ(pairs[1].target, "2");
  EXPECT_EQ(pairs[1].line, 3);
  EXPECT_EQ(pairs[2].source, "");
  EXPECT_EQ(pairs[3].source, "last");
  EXPECT_EQ(pairs[3].target, "");
  EXPECT_THAT(parse_pairs("", "a.tsv"), testing::IsEmpty());
  for (const char* text : {"one\t1\ntwo 2\n", "one\t1\ntwo\t2\t3"})
    EXPECT_THAT(error_of([&] { parse_pairs(text, "a.tsv"); }),
                AllOf(HasSubstr("a.tsv: line 2"), HasSubstr("tabs")));
}

TEST(Pairs, HaveAnEndAndCountNoPadding) {
  TempFolder folder;
  const auto file = folder.write("a.tsv", "ab\tx\n\tyz\ncde\t\nf\tg\n");
  const OpenedData data = open_data({.path = file.string(), .validation = 0.25, .seq = 3, .source_seq = 4});
  EXPECT_EQ(data.kind, "pairs");
  EXPECT_EQ(data.vocab, 257);
  EXPECT_EQ(data.input, (Shape{4, 3}));
  EXPECT_THAT(data.summary, HasSubstr("3 pairs for training, 1 held out"));
  ASSERT_EQ(data.train->size(), 3);
  EXPECT_EQ(data.validation->origin(0).number, 4);
  Batch batch;
  for (const SampleTensor& tensor : data.train->tensors()) {
    Shape shape{4};
    for (const int64_t extent : tensor.row) shape.push_back(extent);
    batch.tensors.emplace_back(tensor.name, HostTensor{}).second.reset(tensor.dtype, shape);
  }
  for (int64_t row = 0; row < 3; ++row) data.train->write(0, row, row, batch);
  data.train->write_padding(3, batch);
  EXPECT_THAT(row_of(batch, "source", 0), ElementsAre('a', 'b', 256, 0));
  EXPECT_THAT(row_of(batch, "source_length", 0), ElementsAre(3));
  EXPECT_THAT(row_of(batch, "ids", 0), ElementsAre(256, 'x', 0));
  EXPECT_THAT(row_of(batch, "targets", 0), ElementsAre('x', 256, kIgnoreTarget));
  EXPECT_THAT(row_of(batch, "source", 1), ElementsAre(256, 0, 0, 0));
  EXPECT_THAT(row_of(batch, "ids", 1), ElementsAre(256, 'y', 'z'));
  EXPECT_THAT(row_of(batch, "targets", 1), ElementsAre('y', 'z', 256));
  EXPECT_THAT(row_of(batch, "source", 2), ElementsAre('c', 'd', 'e', 256));
  EXPECT_THAT(row_of(batch, "targets", 2), ElementsAre(256, kIgnoreTarget, kIgnoreTarget));
  EXPECT_THAT(row_of(batch, "targets", 3), ElementsAre(kIgnoreTarget, kIgnoreTarget, kIgnoreTarget));
  EXPECT_THAT(row_of(batch, "source_length", 3), ElementsAre(1));
}

TEST(Pairs, AreAllHeldOutWhereNothingIsTrained) {
  TempFolder folder;
  const auto file = folder.write("pairs.txt", "ab\tx\nc\ty\n");  // by its kind, not by its name
  const OpenedData data =
      open_data({.kind = "pairs", .path = file.string(), .use = DataOptions::Use::kEvaluation, .seq = 3});
  EXPECT_EQ(data.validation->size(), 2);
  EXPECT_EQ(data.summary, "2 pairs, 256 ids (bytes)");
}

TEST(Pairs, OtherContentsHaveOtherHashes) {
  TempFolder folder;
  const auto hash = [&](const char* text) {
    return open_data({.path = folder.write("a.tsv", text).string(), .validation = 0, .seq = 9}).train_hash;
  };
  EXPECT_EQ(hash("ab\tc\n"), hash("ab\tc"));
  EXPECT_NE(hash("ab\tc\n"), hash("a\tbc\n"));
  EXPECT_NE(hash("ab\tc\n"), hash("ab\td\n"));
}

TEST(Pairs, WhatDoesNotFitIsRefused) {
  TempFolder folder;
  const auto refusal = [&](const char* text, int64_t source_seq, int64_t seq, int64_t vocab) {
    const auto file = folder.write("a.tsv", text);
    return error_of([&] {
      open_data(
          {.path = file.string(), .validation = 0, .seq = seq, .source_seq = source_seq, .vocab = vocab});
    });
  };
  EXPECT_THAT(refusal("a\tb\nabcd\tb\n", 4, 4, 0),
              AllOf(HasSubstr("a.tsv"), HasSubstr("source of line 2 has 5 tokens with its end"),
                    HasSubstr("model.source_seq is 4; set it to 5")));
  EXPECT_THAT(refusal("a\tb\nb\tabcd\n", 0, 4, 0), HasSubstr("model.seq is 4; set it to 5"));
  EXPECT_THAT(refusal("a\tb\n", 4, 4, 256), HasSubstr("set it to 257"));
  EXPECT_EQ(refusal("a\tb\n", 4, 4, 300), "no error");
  EXPECT_THAT(refusal("\n\n", 4, 4, 0), HasSubstr("no pairs found"));
}

}  // namespace
}  // namespace pair_data_test
}  // namespace trireme
