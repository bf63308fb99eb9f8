#include "trireme/comm/launch/core_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace trireme::comm {
namespace {

using Processors = std::vector<int>;

TEST(CoreShare, AllProcessorsInEqualPartsInOrder) {
  const Processors six{0, 3, 1, 4, 2, 5};
  EXPECT_EQ(share_of(six, 3, 0), (Processors{0, 3}));
  EXPECT_EQ(share_of(six, 3, 2), (Processors{2, 5}));
  EXPECT_EQ(share_of(six, 4, 1), (Processors{1, 4}));
  EXPECT_EQ(share_of(six, 4, 3), Processors{5});
}

TEST(CoreShare, NeighboursShareAProcessorWhereAllAreSharedByAsMany) {
  EXPECT_EQ(share_of({0, 3}, 4, 0), Processors{0});
  EXPECT_EQ(share_of({0, 3}, 4, 1), Processors{0});
  EXPECT_EQ(share_of({0, 3}, 4, 2), Processors{3});
  EXPECT_EQ(share_of({0, 3}, 6, 5), Processors{3});
}

TEST(CoreShare, NobodyIsBoundWhereSomeWouldHaveLessThanOthers) {
  EXPECT_EQ(share_of({0, 1}, 3, 0), Processors{});
  EXPECT_EQ(share_of({0, 1}, 1, 0), Processors{});
  EXPECT_EQ(share_of({}, 2, 0), Processors{});
}

TEST(CoreShare, ABoundThreadMayUseItsShareAlone) {
  const Processors all = usable_processors();
  ASSERT_FALSE(all.empty());
  EXPECT_TRUE(std::ranges::is_permutation(usable_processors(), all));
  std::thread([&] {
    ASSERT_TRUE(bind_to({all.back()}));
    EXPECT_EQ(usable_processors(), Processors{all.back()});
  }).join();
  EXPECT_EQ(usable_processors(), all);
}

}  // namespace
}  // namespace trireme::comm
