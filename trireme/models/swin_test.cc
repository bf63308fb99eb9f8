// What swin's attention adds to scores, as it is made in a step, against the definitions: the bias by
// relative position, and the mask of shifted windows.
#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/models/random_batch.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

constexpr int64_t kSide = 8, kWindow = 4, kShift = 2, kHeads = 2, kPatches = kWindow * kWindow;

ModelOptions small_swin() {
  ModelOptions model;
  model.family = "swin";
  model.layers = 8;
  model.hidden = 4;
  model.heads = kHeads;
  model.patch = 1;
  model.window = kWindow;
  model.classes = 3;
  return model;
}

// The first result of that shape that a node of this op makes in a step within the scope.
class SwinStep : public testing::Test {
 protected:
  SwinStep() : trainer_(small_swin(), {}, {}, {2, {3, kSide, kSide}}, *device_) { trainer_.initialise(3); }

  std::vector<float> made(const std::string& scope, std::string_view op, const Shape& shape) {
    std::vector<float> found;
    const Program& program = trainer_.executor().program();
    trainer_.executor().observe([&](int segment, int node, int output, const TensorView& result) {
      const Graph& graph = program.segments[static_cast<size_t>(segment)].graph;
      const Node& one = graph.nodes[static_cast<size_t>(node)];
      const std::string& name =
          graph.values[static_cast<size_t>(one.outputs[static_cast<size_t>(output)])].name;
      if (!found.empty() || one.op->name != op || !name.starts_with(scope) || result.shape != shape) return;
      const float* data = result.as<float>();
      found.assign(data, data + shape.elements());
    });
    Batch batch = random_batch(small_swin(), {3, kSide, kSide}, 2, 1);
    trainer_.step(batch, 0, 0.0);
    return found;
  }

  std::unique_ptr<Device> device_ = make_cpu_device(1);
  Trainer trainer_;
};

TEST_F(SwinStep, BiasIsThatOfTheRelativePosition) {
  constexpr int64_t kLength = 2 * kWindow - 1;
  std::vector<float> table(kLength * kLength * kHeads);
  trainer_.executor().read_state("layers.0.blocks.0.attn.relative_position_bias_table", table.data(),
                                 table.size() * sizeof(float));
  const std::vector<float> bias =
      made("layers.0.blocks.0/attn", "transpose", {kHeads, kWindow, kWindow, kWindow, kWindow});
  ASSERT_EQ(bias.size(), kHeads * kPatches * kPatches);
  for (int64_t head = 0; head < kHeads; ++head) {
    for (int64_t query = 0; query < kPatches; ++query) {
      for (int64_t key = 0; key < kPatches; ++key) {
        const int64_t y = query / kWindow - key / kWindow + kWindow - 1,
                      x = query % kWindow - key % kWindow + kWindow - 1;
        ASSERT_EQ(bias[(head * kPatches + query) * kPatches + key], table[(y * kLength + x) * kHeads + head])
            << head << " " << query << " " << key;
      }
    }
  }
}

TEST_F(SwinStep, PatchesThatOnlyTheRollMadeNeighboursDoNotSeeEachOther) {
  constexpr int64_t kAcross = kSide / kWindow, kCount = kAcross * kAcross;
  const std::vector<float> mask = made("layers.0.blocks.1", "select", {kCount, kPatches, kPatches});
  ASSERT_EQ(mask.size(), kCount * kPatches * kPatches);
  // Where the patch of a rolled image was before: neighbours are in one window without a jump over the edge.
  const auto before = [](int64_t rolled) { return (rolled + kShift) % kSide; };
  int64_t hidden = 0;
  for (int64_t window = 0; window < kCount; ++window) {
    for (int64_t a = 0; a < kPatches; ++a) {
      for (int64_t b = 0; b < kPatches; ++b) {
        const int64_t top = window / kAcross * kWindow, left = window % kAcross * kWindow;
        const auto far = [&](int64_t first, int64_t p, int64_t q) {
          return std::abs(before(first + p) - before(first + q)) >= kWindow;
        };
        const bool apart = far(top, a / kWindow, b / kWindow) || far(left, a % kWindow, b % kWindow);
        ASSERT_EQ(mask[(window * kPatches + a) * kPatches + b], apart ? -100 : 0)
            << window << " " << a << " " << b;
        hidden += apart;
      }
    }
  }
  EXPECT_GT(hidden, 0);
  EXPECT_TRUE(made("layers.1.blocks.1", "select", {1, kPatches, kPatches}).empty()) << "one window, no shift";
}

}  // namespace
}  // namespace trireme
