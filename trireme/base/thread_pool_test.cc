#include "trireme/base/thread_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/support/error_of.h"

namespace trireme {
namespace {

TEST(ThreadPool, CoversEveryIndexOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int64_t count : {0, 1, 7, 1000}) {
      for (int64_t grain : {1, 3, 5000}) {
        std::vector<int> seen(count, 0);
        pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
          EXPECT_LE(end - begin, grain);
          for (int64_t i = begin; i < end; ++i) ++seen[i];
        });
        EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), int64_t{0}), count);
        for (int n : seen) ASSERT_EQ(n, 1);
      }
    }
  }
}

TEST(ThreadPool, ManyLoopsInARow) {
  ThreadPool pool(4);
  std::atomic<int64_t> total{0};
  for (int loop = 0; loop < 20000; ++loop) {
    pool.parallel_for(8, 1, [&](int64_t begin, int64_t end) { total += end - begin; });
  }
  EXPECT_EQ(total, 160000);
}

TEST(ThreadPool, RefusesFarMoreThreadsThanCores) {
  EXPECT_THAT(error_of([] { ThreadPool pool(100'000); }),
              testing::AllOf(testing::HasSubstr("100000 threads"), testing::HasSubstr("cores")));
}

}  // namespace
}  // namespace trireme
