// Native collectives over shared memory, with real processes: every way (mail, direct, staged, and buffers
// of both kinds in one call), every format and op, gives what one process computes in rank order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/support/fork_ranks.h"
#include "trireme/comm/group.h"
#include "trireme/comm/transport/reduce.h"
#include "trireme/comm/transport/shm/shm_transport.h"

namespace trireme::comm {
namespace {

enum class Buffers { ordinary, shared, mixed };

// One rank's buffer, ordinary or of the transport.
class Buffer {
 public:
  Buffer(Transport& transport, Buffers buffers, size_t bytes) : ordinary_(bytes + 1) {
    const bool shared =
        buffers == Buffers::shared || (buffers == Buffers::mixed && transport.rank() % 2 == 0);
    if (shared) memory_ = transport.allocate(bytes);
    bytes_ = {shared ? memory_->bytes().data() : ordinary_.data(), bytes};
  }
  std::span<std::byte> bytes() { return bytes_; }

 private:
  std::vector<std::byte> ordinary_;
  std::unique_ptr<Memory> memory_;
  std::span<std::byte> bytes_;
};

// What a rank gives. Small integers, so that products stay finite and every format holds them, with zeros
// and signs where there are signs.
void fill(std::span<std::byte> bytes, DType dtype, int rank) {
  const size_t count = bytes.size() / size_of(dtype);
  for (size_t i = 0; i < count; ++i) {
    const int value =
        static_cast<int>((i * 7 + static_cast<size_t>(rank) * 13) % 11) - (dtype == DType::u8 ? 0 : 5);
    const auto put = [&](auto typed) { std::memcpy(&bytes[i * sizeof typed], &typed, sizeof typed); };
    switch (dtype) {
      case DType::f64:
        put(value + 0.1);
        break;
      case DType::f32:
        put(static_cast<float>(value) + 0.1f);
        break;
      case DType::f16:
        put(F16(static_cast<float>(value) + 0.1f));
        break;
      case DType::bf16:
        put(Bf16(static_cast<float>(value) + 0.1f));
        break;
      case DType::i64:
        put(int64_t{value});
        break;
      case DType::i32:
        put(int32_t{value});
        break;
      case DType::u8:
        put(static_cast<uint8_t>(value));
        break;
    }
  }
}

// The reduction of what all ranks give, computed alone. That many_reduce is right is tested beside it.
std::vector<std::byte> expected(size_t bytes, DType dtype, ReduceOp op, int ranks) {
  std::vector<std::vector<std::byte>> all(ranks, std::vector<std::byte>(bytes));
  std::vector<const std::byte*> inputs;
  for (int r = 0; r < ranks; ++r) {
    fill(all[r], dtype, r);
    inputs.push_back(all[r].data());
  }
  std::vector<std::byte> result(bytes);
  std::byte* const output = result.data();
  many_reduce_function(dtype, op)(inputs, {&output, 1}, bytes);
  return result;
}

class Runner {
 public:
  Runner(Transport& transport, uint32_t group, std::vector<int> members)
      : transport_(transport), native_(transport.native(group, members)) {}
  void run(const Call& call, std::span<std::byte> data) {
    NativeOperation operation{.done = false, .call = call.pack(), .data = data.data(), .bytes = data.size()};
    native_->start(operation);
    finish(operation);
  }
  void finish(NativeOperation& operation) {
    while (!operation.done) {
      if (native_->progress(operation) || transport_.progress()) continue;
      transport_.idle(Clock::now() + std::chrono::seconds(20));
    }
  }
  Native& native() { return *native_; }

 private:
  Transport& transport_;
  std::unique_ptr<Native> native_;
};

class ShmNative : public ::testing::TestWithParam<int> {};

TEST_P(ShmNative, all_reduce_of_every_format_op_and_size) {
  const int ranks = GetParam();
  expect_all_ok(test::run_ranks(ranks, [&](test::ForkedRank& self) -> std::string {
    const auto transport = make_shm_transport(self.rendezvous());
    Runner runner(*transport, 1, all_ranks(ranks));
    for (const Buffers buffers : {Buffers::ordinary, Buffers::shared, Buffers::mixed}) {
      for (const int64_t count : {0, 1, 6, 127, 1021, 4096, 40009, 300007}) {
        for (const DType dtype :
             {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8}) {
          if (count > 5000 && dtype != DType::f32 && dtype != DType::bf16) continue;
          for (const ReduceOp op :
               {ReduceOp::sum, ReduceOp::average, ReduceOp::max, ReduceOp::min, ReduceOp::product}) {
            if (op == ReduceOp::average && !is_float(dtype)) continue;
            if (count > 50000 && op != ReduceOp::average) continue;
            Buffer buffer(*transport, buffers, count * size_of(dtype));
            fill(buffer.bytes(), dtype, self.rank());
            runner.run({Collective::all_reduce, Algorithm::native, dtype, op, 0, count}, buffer.bytes());
            const auto wanted = expected(buffer.bytes().size(), dtype, op, ranks);
            EXPECT_TRUE(std::ranges::equal(buffer.bytes(), wanted))
                << name(op) << " of " << count << ' ' << name(dtype) << ", buffers " << int(buffers);
          }
        }
      }
    }
    return "";
  }));
}

TEST_P(ShmNative, other_collectives) {
  const int ranks = GetParam();
  expect_all_ok(test::run_ranks(ranks, [&](test::ForkedRank& self) -> std::string {
    const auto transport = make_shm_transport(self.rendezvous());
    Runner runner(*transport, 1, all_ranks(ranks));
    const DType dtype = DType::f32;
    const auto compare = [](std::span<std::byte> got, std::span<const std::byte> wanted, const char* what) {
      EXPECT_TRUE(std::ranges::equal(got, wanted)) << what << ' ' << wanted.size();
    };
    for (const Buffers buffers : {Buffers::ordinary, Buffers::shared, Buffers::mixed}) {
      for (const int64_t count : {0, 1, 5, 1021, 40009, 300007}) {
        const size_t bytes = count * size_of(dtype);
        Buffer buffer(*transport, buffers, bytes);
        const Part part = part_of(count, ranks, self.rank());
        const size_t begin = part.begin * size_of(dtype);
        const size_t size = part.size * size_of(dtype);

        fill(buffer.bytes(), dtype, self.rank());
        runner.run({Collective::reduce_scatter, Algorithm::native, dtype, ReduceOp::sum, 0, count},
                   buffer.bytes());
        const auto sum = expected(bytes, dtype, ReduceOp::sum, ranks);
        compare(buffer.bytes().subspan(begin, size), std::span(sum).subspan(begin, size), "reduce_scatter");

        runner.run({Collective::all_gather, Algorithm::native, dtype, ReduceOp::sum, 0, count},
                   buffer.bytes());
        compare(buffer.bytes(), sum, "all_gather");

        for (int root = 0; root < ranks; ++root) {
          fill(buffer.bytes(), dtype, self.rank());
          runner.run({Collective::broadcast, Algorithm::native, dtype, ReduceOp::sum, root, count},
                     buffer.bytes());
          std::vector<std::byte> wanted(bytes);
          fill(wanted, dtype, root);
          compare(buffer.bytes(), wanted, "broadcast");
        }
        runner.run({.collective = Collective::barrier, .algorithm = Algorithm::native}, {});
      }
    }
    return "";
  }));
}
INSTANTIATE_TEST_SUITE_P(Ranks, ShmNative, ::testing::Values(1, 2, 3, 4, 5, 8));

// Two groups that share ranks in another order, several operations of each in flight, waited for in another
// order than started.
TEST(ShmGroups, operations_in_flight) {
  expect_all_ok(test::run_ranks(3, [&](test::ForkedRank& self) -> std::string {
    const auto transport = make_shm_transport(self.rendezvous());
    Runner first(*transport, 1, {0, 1, 2});
    Runner second(*transport, 2, {2, 0, 1});
    for (int round = 0; round < 50; ++round) {
      constexpr int kEach = 4;
      const int64_t count = round % 2 == 0 ? 10 : 20000;
      const size_t bytes = count * sizeof(float);
      std::vector<std::vector<std::byte>> data(2 * kEach, std::vector<std::byte>(bytes));
      std::vector<NativeOperation> operations(2 * kEach);
      const Call call{Collective::all_reduce, Algorithm::native, DType::f32, ReduceOp::max, 0, count};
      for (int i = 0; i < 2 * kEach; ++i) {
        fill(data[i], DType::f32, self.rank());
        operations[i] = {.done = false, .call = call.pack(), .data = data[i].data(), .bytes = bytes};
        (i % 2 == 0 ? first : second).native().start(operations[i]);
      }
      for (int i = 2 * kEach - 1; i >= 0; --i) (i % 2 == 0 ? first : second).finish(operations[i]);
      const auto wanted = expected(bytes, DType::f32, ReduceOp::max, 3);
      for (const auto& each : data) EXPECT_EQ(each, wanted);
    }
    return "";
  }));
}

TEST(ShmGroups, direct_reading_is_counted) {
  expect_all_ok(test::run_ranks(2, [&](test::ForkedRank& self) -> std::string {
    const auto transport = make_shm_transport(self.rendezvous());
    Runner runner(*transport, 1, {0, 1});
    EXPECT_EQ(transport->counters().messages_sent, 0u);
    const auto memory = transport->allocate(1 << 20);
    runner.run({Collective::all_reduce, Algorithm::native, DType::f32, ReduceOp::sum, 0, 1 << 18},
               memory->bytes());
    EXPECT_EQ(transport->counters().bytes_read_directly, 1u << 19);
    EXPECT_EQ(transport->counters().bytes_sent, 0u);
    return "";
  }));
}

// Memory that is freed and allocated again is zeroed, and others see what is new in it.
TEST(ShmMemory, is_zeroed_when_it_is_used_again) {
  expect_all_ok(test::run_ranks(2, [&](test::ForkedRank& self) -> std::string {
    const auto transport = make_shm_transport(self.rendezvous());
    Runner runner(*transport, 1, {0, 1});
    for (int round = 0; round < 20; ++round) {
      const auto memory = transport->allocate(100000);
      const auto bytes = memory->bytes();
      EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 4096, 0u);
      for (std::byte each : bytes) EXPECT_EQ(each, std::byte{0});
      fill(bytes, DType::f32, self.rank());
      runner.run({Collective::all_reduce, Algorithm::native, DType::f32, ReduceOp::sum, 0, 25000}, bytes);
      const auto wanted = expected(bytes.size(), DType::f32, ReduceOp::sum, 2);
      EXPECT_TRUE(std::ranges::equal(bytes, wanted));
    }
    return "";
  }));
}

}  // namespace
}  // namespace trireme::comm
