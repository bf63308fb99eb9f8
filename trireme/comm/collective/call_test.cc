#include "trireme/comm/collective/call.h"

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

TEST(Call, PackingLosesNothing) {
  for (int collective = 0; collective <= static_cast<int>(Collective::message); ++collective) {
    for (int algorithm = 0; algorithm <= static_cast<int>(Algorithm::hierarchical); ++algorithm) {
      for (int dtype = 0; dtype <= static_cast<int>(DType::u8); ++dtype) {
        for (int op = 0; op <= static_cast<int>(ReduceOp::product); ++op) {
          const Call call{.collective = static_cast<Collective>(collective),
                          .algorithm = static_cast<Algorithm>(algorithm),
                          .dtype = static_cast<DType>(dtype),
                          .op = static_cast<ReduceOp>(op),
                          .root = Call::kMaxRoot - op,
                          .count = Call::kMaxCount - collective};
          ASSERT_EQ(Call::unpack(call.pack()), call) << to_text(call);
        }
      }
    }
  }
}

TEST(Call, TextSaysWhatMatters) {
  EXPECT_EQ(to_text({.collective = Collective::all_reduce,
                     .algorithm = Algorithm::ring,
                     .dtype = DType::f32,
                     .op = ReduceOp::sum,
                     .count = 1048576}),
            "all_reduce of 1,048,576 f32, sum, by ring");
  EXPECT_EQ(to_text({.collective = Collective::broadcast, .dtype = DType::u8, .root = 3, .count = 12}),
            "broadcast of 12 u8, root 3");
  EXPECT_EQ(to_text({.collective = Collective::all_to_all, .dtype = DType::i32}), "all_to_all of i32");
  EXPECT_EQ(to_text({.collective = Collective::all_to_all,
                     .algorithm = Algorithm::hierarchical,
                     .dtype = DType::f32,
                     .count = 4096}),
            "all_to_all of 4,096 f32, by hierarchical");
  EXPECT_EQ(to_text({}), "barrier");
}

TEST(Call, AnyWordPrints) {
  for (uint64_t word : {~uint64_t{0}, uint64_t{0x0123456789abcdef}})
    EXPECT_FALSE(to_text(Call::unpack(word)).empty());
  EXPECT_NE(to_text(Call::unpack(~uint64_t{0})).find("unknown"), std::string::npos);
}

TEST(Call, NamesParse) {
  for (int i = 0; i <= static_cast<int>(Algorithm::hierarchical); ++i) {
    EXPECT_EQ(parse_algorithm(name(static_cast<Algorithm>(i))), static_cast<Algorithm>(i));
  }
  EXPECT_EQ(parse_algorithm("rign"), std::nullopt);
  EXPECT_EQ(parse_reduce_op("max"), ReduceOp::max);
  EXPECT_EQ(parse_collective("all_to_all"), Collective::all_to_all);
}

}  // namespace
}  // namespace trireme::comm
