#include "trireme/comm/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "tests/support/error_of.h"
#include "trireme/comm/engine/recorder.h"
#include "trireme/comm/transport/inproc/inproc.h"

namespace trireme::comm {
namespace {

using testing::HasSubstr;

void on_threads(int ranks, const std::function<void(Transport&)>& body) {
  const auto hub = std::make_shared<InprocHub>(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      InprocTransport transport(hub, rank);
      EXPECT_NO_THROW(body(transport));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Group, TheExampleOfTheReadme) {
  on_threads(4, [](Transport& transport) {
    Group world(transport, /*number=*/0, /*members=*/{0, 1, 2, 3});
    std::vector<float> gradient(1'000'000, static_cast<float>(transport.rank()));
    Handle sum = world.all_reduce(gradient.data(), static_cast<int64_t>(gradient.size()), DType::f32,
                                  ReduceOp::average);
    sum.wait();
    EXPECT_EQ(gradient.front(), 1.5f);
    EXPECT_EQ(gradient.back(), 1.5f);
    const OperationReport report = sum.report();
    EXPECT_EQ(to_text(report.call), "all_reduce of 1,000,000 f32, average, by reduce_scatter_gather");
    EXPECT_GT(report.seconds, 0);
    EXPECT_LT(report.seconds, 60);
  });
}

TEST(Group, AnEmptyHandleHasNothingToReport) {
  Handle handle;
  handle.wait();
  EXPECT_TRUE(handle.done());
  EXPECT_THAT(error_of([&] { handle.report(); }), testing::HasSubstr("this handle is of no operation"));
  EXPECT_THAT(error_of([&] { handle.patience_seconds(); }),
              testing::HasSubstr("this handle is of no operation"));
}

TEST(Group, TheChooserIsAskedOncePerCall) {
  on_threads(3, [](Transport& transport) {
    int asked = 0;
    GroupOptions options;
    options.chooser = [&](const Call& call, int ranks, bool native_offered) {
      ++asked;
      EXPECT_EQ(call.algorithm, asked < 3 ? Algorithm::automatic : Algorithm::ring);
      EXPECT_EQ(ranks, 3);
      EXPECT_FALSE(native_offered);
      return Choice{.algorithm = Algorithm::tree, .segment_bytes = 2000, .predicted_seconds = 0.25};
    };
    Group group(transport, 0, {0, 1, 2}, options);
    std::vector<double> data(1000, 1);
    for (int i = 0; i < 3; ++i) {
      Handle handle = group.all_reduce(data.data(), 1000, DType::f64, ReduceOp::max);
      handle.wait();
      EXPECT_EQ(handle.report().call.algorithm, Algorithm::tree);
      EXPECT_EQ(handle.report().segment_bytes, 2000u);
      EXPECT_EQ(handle.report().predicted_seconds, 0.25);
      EXPECT_EQ(handle.report().sequence, static_cast<uint32_t>(i));
    }
    EXPECT_EQ(asked, 1);
    group.all_reduce(data.data(), 999, DType::f64, ReduceOp::max).wait();
    EXPECT_EQ(asked, 2);
    // Who names an algorithm gets it.
    Handle ring = group.all_reduce(data.data(), 1000, DType::f64, ReduceOp::max, {Algorithm::ring, 512});
    ring.wait();
    EXPECT_EQ(ring.report().call.algorithm, Algorithm::ring);
    EXPECT_EQ(ring.report().segment_bytes, 512u);
    EXPECT_EQ(ring.report().predicted_seconds, 0.25);
    EXPECT_EQ(asked, 3);
  });
}

// A size for every call, more than are kept.
TEST(Group, ManyDifferentCallsAreForgottenAgain) {
  on_threads(2, [](Transport& transport) {
    Group group(transport, 0, {0, 1});
    for (int64_t count = 1; count < 2500; ++count) {
      std::vector<int32_t> data(static_cast<size_t>(count), 1);
      group.all_reduce(data.data(), count, DType::i32, ReduceOp::sum).wait();
      ASSERT_EQ(data.back(), 2);
    }
  });
}

TEST(Group, OperationsAreRecorded) {
  std::vector<std::byte> memory(Recorder::bytes_for(2));
  on_threads(2, [&](Transport& transport) {
    Recorder recorder(memory, transport.rank(), 2);
    GroupOptions options;
    options.recorder = &recorder;
    options.name = "tensor";
    Group group(transport, 0, {0, 1}, options);
    std::vector<float> data(100);
    group.broadcast(data.data(), 100, DType::f32, 1).wait();
  });
  const std::string table = Recorder(memory, -1, 2).table();
  EXPECT_NE(table.find("broadcast of 100 f32, root 1"), std::string::npos) << table;
  EXPECT_NE(table.find("tensor"), std::string::npos) << table;
}

// Rank 1 never comes to the barrier, and keeps rank 0 busy with millions of small segments of another call,
// which take many times the timeout. That the transport moves must not hide that the barrier does not.
TEST(Group, OtherTrafficDoesNotKeepAStuckCallAlive) {
  on_threads(2, [](Transport& transport) {
    const auto error_of = [](Handle handle) -> std::string {
      try {
        handle.wait();
      } catch (const PeerError& error) {
        return error.what();
      }
      return "done";
    };
    GroupOptions options;
    options.timeout_seconds = 0.2;
    Group stuck(transport, 0, {0, 1}, options);
    Group traffic(transport, 1, {0, 1});
    std::vector<double> data(size_t{4} << 20);
    Handle busy = traffic.broadcast(data.data(), static_cast<int64_t>(data.size()), DType::f64, /*root=*/1,
                                    {Algorithm::naive, sizeof(double)});
    if (transport.rank() == 0) {
      EXPECT_THAT(error_of(stuck.barrier()), HasSubstr("barrier (group world, number 0"));
    } else {
      EXPECT_THAT(error_of(std::move(busy)), HasSubstr("barrier"));  // of the other rank's error, and at once
    }
  });
}

TEST(Group, PartsCoverTheVectorOnce) {
  for (const int64_t count : {0, 1, 5, 16, 17, 1000003}) {
    for (int parts = 1; parts <= 9; ++parts) {
      int64_t end = 0;
      for (int part = 0; part < parts; ++part) {
        const Part found = part_of(count, parts, part);
        EXPECT_EQ(found.begin, end);
        EXPECT_GE(found.size, count / parts);
        EXPECT_LE(found.size, count / parts + 1);
        end += found.size;
      }
      EXPECT_EQ(end, count);
    }
  }
}

}  // namespace
}  // namespace trireme::comm
