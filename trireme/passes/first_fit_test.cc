// Placements against a search through all blocks, and their cost where blocks are many.
#include "trireme/passes/first_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace trireme {
namespace {

struct Block {
  int begin, end;
  size_t bytes, offset;
};

size_t searched(const std::vector<Block>& placed, int begin, int end, size_t bytes) {
  for (size_t offset = 0;; ++offset) {
    const bool free = std::ranges::none_of(placed, [&](const Block& b) {
      return b.begin <= end && begin <= b.end && b.offset < offset + bytes && offset < b.offset + b.bytes;
    });
    if (free) return offset;
  }
}

TEST(FirstFit, IsTheLowestFreeOffset) {
  std::mt19937 random(3);
  const auto up_to = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  for (int round = 0; round < 200; ++round) {
    const int moments = 1 + up_to(40);
    FirstFit fit(moments);
    std::vector<Block> placed;
    size_t total = 0;
    for (int i = 0; i < 40; ++i) {
      const int begin = up_to(moments - 1), end = begin + up_to(moments - 1 - begin);
      const size_t bytes = 1 + static_cast<size_t>(up_to(9));
      const size_t offset = fit.place(begin, end, bytes);
      ASSERT_EQ(offset, searched(placed, begin, end, bytes)) << "round " << round << ", block " << i;
      placed.push_back({begin, end, bytes, offset});
      total = std::max(total, offset + bytes);
    }
    EXPECT_EQ(fit.total_bytes(), total);
  }
}

// As in training: what each layer keeps for backward, nested, and what it needs for a moment on both ways.
int64_t looks_of_layers(int layers) {
  FirstFit fit(8 * layers);
  for (int layer = 0; layer < layers; ++layer) {
    for (const size_t bytes : {512, 256, 128}) fit.place(4 * layer, 8 * layers - 1 - 4 * layer, bytes);
  }
  for (int moment = 0; moment < 8 * layers; ++moment) {
    for (const size_t bytes : {512, 128, 64}) fit.place(moment, std::min(moment + 1, 8 * layers - 1), bytes);
  }
  return fit.looks();
}

TEST(FirstFit, CostGrowsWithTheBlocksNotTheirSquare) {
  const int64_t few = looks_of_layers(100), many = looks_of_layers(1600);
  EXPECT_LT(many, 32 * few);  // 16 times the blocks, and a tree that is a half deeper
}

}  // namespace
}  // namespace trireme
