// A call that was made before asks the heap for nothing, on any rank: recipes, operations and messages are
// kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "tests/support/allocation_count.h"
#include "trireme/comm/group.h"
#include "trireme/comm/transport/inproc/inproc.h"

namespace trireme::comm {
namespace {

constexpr int kRanks = 4;

void all_calls(Group& group, std::vector<float>& data, std::span<const int64_t> counts) {
  const auto count = static_cast<int64_t>(data.size());
  for (const int64_t part : {int64_t{2}, count}) {
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::butterfly, Algorithm::tree,
                                      Algorithm::naive, Algorithm::reduce_scatter_gather}) {
      group.all_reduce(data.data(), part, DType::f32, ReduceOp::max, {algorithm}).wait();
    }
    Handle first = group.all_gather(data.data(), part, DType::f32);
    Handle second = group.barrier();
    second.wait();
    first.wait();
  }
  const int next = (group.rank() + 1) % kRanks, previous = (group.rank() + kRanks - 1) % kRanks;
  Handle send = group.send(data.data(), 100, DType::f32, next);
  Handle receive = group.receive(data.data() + 200, 100, DType::f32, previous);
  send.wait();
  receive.wait();
  group.all_to_all(data.data(), counts, data.data() + count / 2, counts, DType::f32).wait();
  for (const Algorithm algorithm : {Algorithm::naive, Algorithm::hierarchical})
    group.all_to_all(data.data(), data.data() + count / 2, counts[0], DType::f32, {algorithm}).wait();
}

TEST(Engine, RepeatedCallsAllocateNothing) {
  const auto hub = std::make_shared<InprocHub>(kRanks);
  int64_t least = std::numeric_limits<int64_t>::max();  // allocations in a window
  const auto body = [&](int rank) {
    InprocTransport transport(hub, rank);
    Group group(transport, 0, all_ranks(kRanks), {.hosts = {0, 0, 1, 1}});
    std::vector<float> data(100000, 1);
    const std::vector<int64_t> counts(kRanks, 10000);
    // How many messages are on their way at once depends on timing, and the pool grows when there are more
    // than ever before. So it grows now and then; what a call itself asks for would be asked for in every
    // window.
    for (int window = 0; window < 10; ++window) {
      group.barrier().wait();
      const int64_t before = allocation_count();
      group.barrier().wait();
      for (int round = 0; round < 5; ++round) all_calls(group, data, counts);
      group.barrier().wait();
      if (rank == 0) least = std::min(least, allocation_count() - before);
      group.barrier().wait();
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(least, 0);
}

}  // namespace
}  // namespace trireme::comm
