// What an export refuses to write. What it writes is read by transformers in tests/parity.
#include "trireme/run/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"
#include "trireme/checkpoint/safetensors.h"
#include "trireme/checkpoint/tensor_files.h"
#include "trireme/train/step.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class Export : public ::testing::Test {
 protected:
  Export() {
    model_.layers = 1;
    model_.heads = 2;
    model_.hidden = 8;
    model_.vocab = 16;
    model_.seq = 4;
    memory_.resize(16 * 8 * 4);
    for (const Value& value : forward_graph(model_, {1, Shape{model_.seq}}, DType::f32).values) {
      if (value.kind == Value::Kind::kState)
        tensors_.push_back({value.name, {memory_.data(), DType::f32, value.type.shape}});
    }
  }

  // The message when these tensors are exported.
  std::string exported(const std::vector<NamedTensor>& tensors) {
    const std::string weights = folder_.path() / "model.safetensors";
    write_safetensors(weights, tensors);
    return error_of([&] { export_hugging_face(model_, TensorFiles(weights), folder_.path() / "out"); });
  }

  TempFolder folder_;
  ModelOptions model_;
  std::vector<float> memory_;
  std::vector<NamedTensor> tensors_;
};

TEST_F(Export, WritesAFolderWithWeightsAndTheirConfig) {
  EXPECT_EQ(exported(tensors_), "no error");
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "out/model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "out/config.json"));
}

TEST_F(Export, RefusesTensorsThatTheModelDoesNotHave) {
  std::vector<NamedTensor> more = tensors_;
  more.push_back({"h.7.ln_1.weight", {memory_.data(), DType::f32, {8}}});
  EXPECT_THAT(exported(more), HasSubstr(fmt::format("{} tensors, but the model of config.toml has {}",
                                                    more.size(), tensors_.size())));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "out"));
}

TEST_F(Export, RefusesAModelThatLacksATensor) {
  std::vector<NamedTensor> fewer = tensors_;
  fewer.pop_back();
  EXPECT_THAT(exported(fewer), HasSubstr(fmt::format("'{}' is missing", tensors_.back().name)));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "out"));
}

}  // namespace
}  // namespace trireme
