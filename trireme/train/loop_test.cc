// From settings to data: what people set reaches the readers.
#include "trireme/train/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/train/data/image_samples.h"
#include "trireme/train/data/loader.h"
#include "trireme/train/data/test_files.h"
#include "trireme/train/data/test_images.h"
#include "trireme/train/data/test_vocabulary.h"

namespace trireme {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class RunData : public ::testing::Test {
 protected:
  OpenedData open() {
    config_.data.path = folder_.path().string();
    return open_run_data(config_, "");
  }
  TempFolder folder_;
  Config config_;
};

TEST_F(RunData, ImagesAreBroughtToTheSizeAndNormalisedAsSet) {
  for (const char* name : {"a/1.png", "b/1.png"})
    folder_.write(name, make_png(6, 9, PNG_FORMAT_RGB, std::vector<uint8_t>(6 * 9 * 3, 51)));
  folder_.write("b/2.png", make_png(4, 4, PNG_FORMAT_RGB, std::vector<uint8_t>(4 * 4 * 3, 51)));
  config_.data.kind = "images";
  config_.data.validation_fraction = 0;
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("data.image_height"));
  config_.data.image_height = 3;
  config_.data.image_width = 5;
  config_.data.mean = {0.1};
  config_.data.deviation = {0.5};
  const OpenedData data = open();
  EXPECT_EQ(data.input, (Shape{3, 3, 5}));
  Loader loader(data.train, {.batch = 3});
  EXPECT_THAT(loader.next().at("images").values<float>(), Each(::testing::FloatNear(0.2f, 1e-6f)));
  config_.data.mean = {0.1, 0.1};
  config_.data.deviation = {0.5, 0.5};
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("one per channel"));
}

TEST_F(RunData, DigitsAreNotScaled) {
  folder_.write("train-images-idx3-ubyte", make_idx_images(2, 2, 3, "abcdefghijkl"));
  folder_.write("train-labels-idx1-ubyte", make_idx_labels("\1\2"));
  config_.data.validation_fraction = 0;
  config_.data.image_height = 3;
  config_.data.image_width = 2;
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("these images are 2x3, but data.image_height = 3"));
  std::swap(config_.data.image_height, config_.data.image_width);
  EXPECT_EQ(open().input, (Shape{1, 2, 3}));
}

TEST_F(RunData, Gpt2ReadsItsFilesFromTheTokenizerPath) {
  TempFolder bpe;
  bpe.write("encoder.json", encoder_json_of(vocabulary_of(small_merges())));
  bpe.write("vocab.bpe", vocab_bpe_of(small_merges()));
  folder_.write("a.txt", "hello hello hello hello hello");
  config_.model.seq = 2;
  config_.data.validation_fraction = 0;
  config_.data.tokenizer = "gpt2";
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("data.tokenizer_path is empty"));
  config_.data.tokenizer_path = bpe.path().string();
  EXPECT_EQ(open().vocab, 265);
}

}  // namespace
}  // namespace trireme
