// The encoder-decoder transformer: what nobody may see changes nothing, and it learns.
#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace seq2seq_test {
namespace {

constexpr int64_t kRows = 24, kSource = 8, kSeq = 7;
constexpr int32_t kEnd = 12;  // of sequences; ids are below it

ModelOptions small() {
  ModelOptions model;
  model.family = "seq2seq";
  model.layers = 1;
  model.heads = 2;
  model.hidden = 32;
  model.vocab = kEnd + 1;
  model.seq = kSeq;
  model.source_seq = kSource;
  return model;
}

// Sources of 1 to 6 ids, and the same backwards.
Batch reversals(uint64_t step) {
  Batch batch;
  batch.rows = kRows;
  for (const SampleTensor& tensor : batch_tensors(find_model("seq2seq"), {kSource, kSeq})) {
    Shape shape{kRows};
    for (const int64_t extent : tensor.row) shape.push_back(extent);
    batch.tensors.emplace_back(tensor.name, HostTensor{}).second.reset(tensor.dtype, shape);
  }
  for (int64_t row = 0; row < kRows; ++row) {
    const auto drawn = [&](uint64_t i, uint64_t below) {
      return uniform_integer({step, 7}, static_cast<uint64_t>(row) * 10 + i, below);
    };
    std::vector<int32_t> ids(1 + drawn(0, 6));
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(drawn(1 + i, kEnd));
    const auto of = [&](const char* name) { return batch.at(name).row<int32_t>(row); };
    for (const char* name : {"source", "ids"}) std::ranges::fill(of(name), 0);
    std::ranges::fill(of("targets"), kIgnoreTarget);
    std::ranges::copy(ids, of("source").begin());
    of("source")[ids.size()] = kEnd;
    of("source_length")[0] = static_cast<int32_t>(ids.size()) + 1;
    std::ranges::reverse(ids);
    of("ids")[0] = kEnd;
    std::ranges::copy(ids, of("ids").begin() + 1);
    std::ranges::copy(ids, of("targets").begin());
    of("targets")[ids.size()] = kEnd;
  }
  return batch;
}

class Seq2seqTraining : public testing::Test {
 protected:
  Seq2seqTraining()
      : device_(make_cpu_device(2)), trainer_(small(), options(), {}, {kRows, {kSource, kSeq}}, *device_) {
    trainer_.initialise(3);
  }
  static TrainOptions options() {
    TrainOptions train;
    train.batch = kRows;
    return train;
  }
  double loss(Batch batch) {
    Evaluation total;
    trainer_.evaluate(batch, total);
    return total.loss;
  }

  std::unique_ptr<Device> device_;
  Trainer trainer_;
};

TEST_F(Seq2seqTraining, PaddingIsSeenByNobody) {
  const Batch whole = reversals(1);
  Batch padded = whole, seen = whole, behind = whole;
  for (int64_t row = 0; row < kRows; ++row) {
    const auto length = static_cast<size_t>(padded.at("source_length").row<int32_t>(row)[0]);
    std::ranges::fill(padded.at("source").row<int32_t>(row).subspan(length), 5);
    seen.at("source").row<int32_t>(row)[length - 1] = 5;
    // Of a target's end on, decoders read what they like.
    std::ranges::fill(behind.at("ids").row<int32_t>(row).subspan(length), 5);
  }
  const double expected = loss(whole);
  EXPECT_EQ(loss(padded), expected);
  EXPECT_EQ(loss(behind), expected);
  EXPECT_NE(loss(seen), expected);
  padded.at("source_length").values<int32_t>()[0] += 1;
  EXPECT_NE(loss(padded), expected);
}

TEST_F(Seq2seqTraining, LengthsThatNoSourceHasAreRefused) {
  for (const int32_t length : {-1, static_cast<int32_t>(kSource) + 1}) {
    Batch batch = reversals(1);
    batch.at("source_length").values<int32_t>()[2] = length;
    EXPECT_THROW(loss(batch), Error) << length;
  }
}

TEST_F(Seq2seqTraining, LearnsToReverse) {
  const double first = loss(reversals(1'000'000));
  for (int64_t step = 0; step < 250; ++step) {
    Batch batch = reversals(static_cast<uint64_t>(step));
    trainer_.step(batch, step, 3e-3 * std::min(1.0, static_cast<double>(step + 1) / 30));
  }
  EXPECT_LT(loss(reversals(1'000'000)), 0.4 * first) << first;
}

}  // namespace
}  // namespace seq2seq_test
}  // namespace trireme
