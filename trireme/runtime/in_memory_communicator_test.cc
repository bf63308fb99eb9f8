// Ranks as threads whose device is the CPU: events are through at once there, so that what is tested is who
// waits for whom, and what is computed. tests/parity has the same on a GPU.
#include "trireme/runtime/in_memory_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/comm/context.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme {
namespace {

using Reduction = Communicator::Reduction;

void on_ranks(int ranks, const std::function<void(Communicator&, int)>& program) {
  comm::run_rank_threads(ranks, [&](comm::Context& context) {
    MeshCommunicator host(Mesh({{"data", ranks}}), context);
    const std::unique_ptr<Device> device = make_cpu_device(1);
    const std::unique_ptr<Stream> stream = device->make_stream();
    InMemoryCommunicator communicator(host, *stream, device->kernels());
    program(communicator, context.rank());
  });
}

template <typename T>
std::byte* bytes_of(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

// Values of which sums depend on their order.
float value_of(int rank, int64_t i) {
  return 1.0f / static_cast<float>(1 + rank) + static_cast<float>(i % 97) * 1e-3f;
}
std::vector<float> values_of(int rank, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = value_of(rank, i);
  return values;
}
float sum_in_pairs(int ranks, int64_t i) {
  std::vector<float> left(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) left[static_cast<size_t>(rank)] = value_of(rank, i);
  for (size_t step = 1; step < left.size(); step *= 2) {
    for (size_t j = 0; j + step < left.size(); j += 2 * step) left[j] += left[j + step];
  }
  return left[0];
}

TEST(InMemoryCommunicator, SumsHaveTheBitsOfPairs) {
  for (const int ranks : {2, 3, 4, 6}) {
    for (const int64_t count : {1, 63, 64, 1000}) {
      on_ranks(ranks, [&](Communicator& communicator, int rank) {
        std::vector<float> values = values_of(rank, count);
        communicator.all_reduce("data", bytes_of(values), count, DType::f32, Reduction::kSum);
        for (int64_t i = 0; i < count; ++i)
          ASSERT_EQ(values[static_cast<size_t>(i)], sum_in_pairs(ranks, i)) << ranks << " ranks, " << i;
      });
    }
  }
}

TEST(InMemoryCommunicator, PartsAreScatteredAndGathered) {
  constexpr int kRanks = 3;
  constexpr int64_t kPart = 70, kCount = kRanks * kPart;
  on_ranks(kRanks, [&](Communicator& communicator, int rank) {
    std::vector<float> values = values_of(rank, kCount);
    communicator.reduce_scatter("data", bytes_of(values), kCount, DType::f32, Reduction::kSum);
    for (int64_t i = rank * kPart; i < (rank + 1) * kPart; ++i)
      ASSERT_EQ(values[static_cast<size_t>(i)], sum_in_pairs(kRanks, i));
    EXPECT_EQ(communicator.take_bytes(), (kRanks - 1) * kPart * sizeof(float));
    communicator.all_gather("data", bytes_of(values), kCount, DType::f32);
    for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], sum_in_pairs(kRanks, i));
    EXPECT_EQ(communicator.take_bytes(), (kRanks - 1) * kPart * sizeof(float));
  });
}

TEST(InMemoryCommunicator, PartsGoToAll) {
  constexpr int kRanks = 4;
  on_ranks(kRanks, [&](Communicator& communicator, int rank) {
    std::vector<int32_t> from(2 * kRanks), to(2 * kRanks);
    std::iota(from.begin(), from.end(), 100 * rank);
    communicator.all_to_all({.axis = "data",
                             .from = bytes_of(from),
                             .given = {2 * kRanks},
                             .to = bytes_of(to),
                             .gotten = {2 * kRanks},
                             .dtype = DType::i32});
    for (int peer = 0; peer < kRanks; ++peer) {
      EXPECT_EQ(to[2 * peer], 100 * peer + 2 * rank);
      EXPECT_EQ(to[2 * peer + 1], 100 * peer + 2 * rank + 1);
    }
  });
}

// Five units over three ranks: 2, 2 and 1. Of an all_to_all each rank has units of another size.
TEST(InMemoryCommunicator, UnevenPartsAreNotFilledUp) {
  constexpr int kRanks = 3;
  constexpr int64_t kUnits = 5, kUnit = 7;
  const auto begin_of = [&](int rank) { return part_of(kUnits, kRanks, rank).begin; };
  const auto size_of_part = [&](int rank) { return part_of(kUnits, kRanks, rank).size; };
  on_ranks(kRanks, [&](Communicator& communicator, int rank) {
    const int64_t count = kUnits * kUnit, begin = begin_of(rank) * kUnit, own = size_of_part(rank) * kUnit;
    std::vector<float> values = values_of(rank, count);
    communicator.reduce_scatter("data", bytes_of(values), count, DType::f32, Reduction::kSum, kUnit);
    for (int64_t i = begin; i < begin + own; ++i)
      ASSERT_EQ(values[static_cast<size_t>(i)], sum_in_pairs(kRanks, i)) << "rank " << rank;
    EXPECT_EQ(communicator.take_bytes(), (kRanks - 1) * own * 4);
    communicator.all_gather("data", bytes_of(values), count, DType::f32, kUnit);
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], sum_in_pairs(kRanks, i));
    EXPECT_EQ(communicator.take_bytes(), (kRanks - 1) * own * 4);

    // A table of five by five: from rows to columns.
    std::vector<int32_t> rows(static_cast<size_t>(size_of_part(rank) * kUnits)), columns(rows.size());
    for (int64_t column = 0, i = 0; column < kUnits; ++column) {
      for (int64_t row = 0; row < size_of_part(rank); ++row)
        rows[static_cast<size_t>(i++)] = static_cast<int32_t>(10 * (begin_of(rank) + row) + column);
    }
    communicator.all_to_all({.axis = "data",
                             .from = bytes_of(rows),
                             .given = {kUnits, size_of_part(rank)},
                             .to = bytes_of(columns),
                             .gotten = {kUnits, size_of_part(rank)},
                             .dtype = DType::i32});
    int64_t i = 0;
    for (int peer = 0; peer < kRanks; ++peer) {
      for (int64_t column = 0; column < size_of_part(rank); ++column) {
        for (int64_t row = 0; row < size_of_part(peer); ++row)
          ASSERT_EQ(columns[static_cast<size_t>(i++)], 10 * (begin_of(peer) + row) + begin_of(rank) + column);
      }
    }
    EXPECT_EQ(communicator.take_bytes(), size_of_part(rank) * (kUnits - size_of_part(rank)) * 4);
  });
}

// There is no kernel for it: it goes through the host.
TEST(InMemoryCommunicator, TheLargestIsFoundToo) {
  on_ranks(3, [&](Communicator& communicator, int rank) {
    std::vector<float> values{static_cast<float>(rank), static_cast<float>(-rank)};
    communicator.all_reduce("data", bytes_of(values), 2, DType::f32, Reduction::kMax);
    EXPECT_EQ(values, (std::vector<float>{2, 0}));
  });
}

// Each waits for what it has sent before it looks at what has come.
TEST(InMemoryCommunicator, MessagesThatCrossDoNotWaitForEachOther) {
  on_ranks(2, [&](Communicator& communicator, int rank) {
    for (int round = 0; round < 50; ++round) {
      std::vector<float> sent(5, static_cast<float>(10 * round + rank)), received(5, -1);
      communicator.start_receive(1 - rank, bytes_of(received), 20, round);
      communicator.start_send(1 - rank, bytes_of(sent), 20, round);
      communicator.wait(bytes_of(sent));
      communicator.wait(bytes_of(received));
      ASSERT_EQ(received, std::vector<float>(5, static_cast<float>(10 * round + 1 - rank)));
    }
    EXPECT_EQ(communicator.take_bytes(), 50u * 20);
  });
}

// Several under way, which ranks wait for in different orders.
TEST(InMemoryCommunicator, WaitsMayComeInAnyOrder) {
  on_ranks(3, [&](Communicator& communicator, int rank) {
    std::vector<std::vector<float>> values;
    for (int i = 0; i < 3; ++i) values.push_back(values_of(rank, 200 + i));
    for (int round = 0; round < 20; ++round) {
      for (int i = 0; i < 3; ++i) {
        values[i] = values_of(rank, 200 + i);
        communicator.start(
            {CollectiveKind::kAllReduce, "data", bytes_of(values[i]), 200 + i, DType::f32, Reduction::kSum});
      }
      for (int i = 0; i < 3; ++i) {
        std::vector<float>& one = values[(i + rank) % 3];
        communicator.wait(bytes_of(one));
        ASSERT_EQ(one.back(), sum_in_pairs(3, std::ssize(one) - 1));
      }
    }
  });
}

// Late averages are under way when a run ends. What a rank has offered is worked on until it is gone.
TEST(InMemoryCommunicator, EndsWhenNobodyWorksOnItsMemory) {
  std::vector<std::vector<float>> values(3);
  on_ranks(3, [&](Communicator& communicator, int rank) {
    if (rank > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10 * rank));
    values[static_cast<size_t>(rank)] = values_of(rank, 500);
    communicator.start({CollectiveKind::kAllReduce, "data", bytes_of(values[static_cast<size_t>(rank)]), 500,
                        DType::f32, Reduction::kSum});
  });
  for (const std::vector<float>& one : values) {
    for (int64_t i = 0; i < 500; ++i) ASSERT_EQ(one[static_cast<size_t>(i)], sum_in_pairs(3, i));
  }
}

TEST(InMemoryCommunicator, ARankThatFailsInTheMiddleIsTold) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(
      [&] {
        on_ranks(2, [&](Communicator& communicator, int rank) {
          std::vector<float> values(4);
          communicator.start(
              {CollectiveKind::kAllReduce, "data", bytes_of(values), 4, DType::f32, Reduction::kSum});
          if (rank == 1) throw_error("no more");
          communicator.wait(bytes_of(values));
        });
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr("rank 1: no more")));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));  // of the timeout's 60
}

TEST(InMemoryCommunicator, ARankThatIsGoneIsTold) {
  EXPECT_THROW(on_ranks(2,
                        [&](Communicator& communicator, int rank) {
                          if (rank == 1) return;
                          std::vector<float> values(4);
                          communicator.all_reduce("data", bytes_of(values), 4, DType::f32, Reduction::kSum);
                        }),
               Error);
}

}  // namespace
}  // namespace trireme
