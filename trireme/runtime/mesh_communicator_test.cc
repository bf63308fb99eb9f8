// Messages between ranks of a mesh, and groups of ranks that no axis has.
#include "trireme/runtime/mesh_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <functional>
#include <thread>

#include "tests/support/error_of.h"
#include "trireme/base/error.h"
#include "trireme/comm/transport/tcp/test_job.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

std::byte* bytes_of(std::vector<float>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}
int64_t size_of(const std::vector<float>& values) {
  return std::ssize(values) * static_cast<int64_t>(sizeof(float));
}

// A ring over ranks that no axis has all of, with all messages under way at once and waited for from the last
// on.
TEST(MeshCommunicator, MessagesOfAPairArriveInOrder) {
  constexpr int kMessages = 20;
  comm::run_rank_threads(4, [](comm::Context& context) {
    MeshCommunicator communicator(Mesh({{"pipe", 2}, {"data", 2}}), context);
    const int next = (context.rank() + 1) % 4, before = (context.rank() + 3) % 4;
    std::vector<std::vector<float>> out, in;
    for (int i = 0; i < kMessages; ++i) {
      out.emplace_back(1 + 1000 * i, static_cast<float>(100 * context.rank() + i));
      in.emplace_back(1 + 1000 * i);
    }
    for (int i = 0; i < kMessages; ++i) {
      communicator.start_receive(before, bytes_of(in[i]), size_of(in[i]), i);
      communicator.start_send(next, bytes_of(out[i]), size_of(out[i]), i);
    }
    float sum = 1;
    communicator.all_reduce("data", reinterpret_cast<std::byte*>(&sum), 1, DType::f32,
                            Communicator::Reduction::kSum);
    EXPECT_EQ(sum, 2);
    for (int i = kMessages - 1; i >= 0; --i) {
      communicator.wait(bytes_of(in[i]));
      communicator.wait(bytes_of(out[i]));
      EXPECT_THAT(in[i], testing::Each(static_cast<float>(100 * before + i)));
    }
  });
}

TEST(MeshCommunicator, MessagesGoAlongAnAxisOfAllRanks) {
  comm::run_rank_threads(2, [](comm::Context& context) {
    MeshCommunicator communicator(Mesh({{"pipe", 2}, {"data", 1}}), context);
    std::vector<float> out(3, static_cast<float>(context.rank())), in(3);
    communicator.start_send(1 - context.rank(), bytes_of(out), size_of(out), 7);
    communicator.start_receive(1 - context.rank(), bytes_of(in), size_of(in), 7);
    communicator.wait(bytes_of(out));
    communicator.wait(bytes_of(in));
    EXPECT_EQ(in[0], static_cast<float>(1 - context.rank()));
  });
}

// A message shares the memory that it is received into until it is waited for, whoever allocated it.
TEST(MeshCommunicator, WhatTheMeshDoesNotHaveIsAnError) {
  comm::run_rank_threads(1, [&](comm::Context& context) {
    MeshCommunicator communicator(Mesh({{"data", 1}}), context);
    float value = 1;
    auto* const data = reinterpret_cast<std::byte*>(&value);
    EXPECT_EQ(error_of([&] { communicator.all_gather("tensor", data, 1, DType::f32); }),
              "there is no axis or group 'tensor' on the mesh 'data:1'");
    EXPECT_EQ(error_of([&] { communicator.all_gather("data", data, 1, DType::f32); }),
              "'data' on the mesh 'data:1' is this rank alone; a collective is for two or more");
    EXPECT_EQ(error_of([&] { communicator.start_send(0, data, 4, 0); }),
              "the mesh 'data:1' has no other rank to exchange messages with");
    const std::byte* const one = data;
    for (const auto& wait : std::vector<std::function<void()>>{[&] { communicator.wait(data); },
                                                               [&] { communicator.try_wait(data); },
                                                               [&] {
                                                                 communicator.wait_any({&one, 1});
                                                               }})
      EXPECT_THAT(error_of(wait), testing::HasSubstr("on memory on which none is under way"));
  });
}

TEST(MeshCommunicator, WhatIsUnderWayKeepsItsMemory) {
  constexpr size_t kBytes = 100000;  // more than a transport takes over
  comm::run_rank_threads(2, [](comm::Context& context) {
    MeshCommunicator communicator(Mesh({{"pipe", 2}}), context);
    float turn = 0;
    const auto meet = [&] {
      communicator.all_reduce("pipe", reinterpret_cast<std::byte*>(&turn), 1, DType::f32,
                              Communicator::Reduction::kSum);
    };
    if (context.rank() == 0) {
      const std::vector<std::byte> sent(kBytes, std::byte{7});
      meet();
      for (int tag = 0; tag < 2; ++tag) {
        communicator.start_send(1, sent.data(), kBytes, tag);
        communicator.wait(sent.data());
      }
      return;
    }
    std::shared_ptr<std::byte> allocated = communicator.allocate(kBytes);
    std::shared_ptr<std::byte> lent(new std::byte[2 * kBytes], [](std::byte* data) { delete[] data; });
    communicator.lend(lent, 2 * kBytes);
    std::byte* const into[] = {allocated.get(), lent.get() + kBytes};
    for (int tag = 0; tag < 2; ++tag) communicator.start_receive(0, into[tag], kBytes, tag);
    const std::weak_ptr<std::byte> memory[] = {allocated, lent};
    allocated.reset();
    lent.reset();
    meet();
    for (int tag = 0; tag < 2; ++tag) {
      ASSERT_FALSE(memory[tag].expired());
      while (into[tag][kBytes - 1] != std::byte{7}) communicator.progress();
      communicator.wait(into[tag]);
      EXPECT_TRUE(memory[tag].expired());
    }
  });
}

// Whoever is named first; each is waited for once.
TEST(MeshCommunicator, TheFirstOfSeveralMessagesIsTheOneThatHasCome) {
  comm::run_rank_threads(3, [](comm::Context& context) {
    MeshCommunicator communicator(Mesh({{"data", 3}}), context);
    std::vector<float> memory(5, static_cast<float>(context.rank())), from_1(5), from_2(5);
    float turn = 0;
    const auto all = [&] {
      communicator.all_reduce("data", reinterpret_cast<std::byte*>(&turn), 1, DType::f32,
                              Communicator::Reduction::kSum);
    };
    if (context.rank() == 0) {
      communicator.start_receive(1, bytes_of(from_1), size_of(from_1), 3);
      communicator.start_receive(2, bytes_of(from_2), size_of(from_2), 3);
      std::vector<const std::byte*> awaited = {bytes_of(from_1), bytes_of(from_2)};
      EXPECT_EQ(communicator.wait_any(awaited).number, 1u);
      EXPECT_EQ(from_2[0], 2);
      all();  // now rank 1 sends
      awaited.pop_back();
      EXPECT_EQ(communicator.wait_any(awaited).number, 0u);
      EXPECT_EQ(from_1[0], 1);
      return;
    }
    if (context.rank() == 1) all();
    communicator.start_send(0, bytes_of(memory), size_of(memory), 3);
    communicator.wait(bytes_of(memory));
    if (context.rank() == 2) all();
  });
}

TEST(MeshCommunicator, TagsThatDifferAreAnErrorThatNamesBothRanks) {
  const std::string error = error_of([] {
    comm::run_rank_threads(2, [](comm::Context& context) {
      MeshCommunicator communicator(Mesh({{"pipe", 2}}), context);
      std::vector<float> data(5);
      if (context.rank() == 0)
        communicator.start_send(1, bytes_of(data), size_of(data), 3);
      else
        communicator.start_receive(0, bytes_of(data), size_of(data), 4);
      communicator.wait(bytes_of(data));
      float sum = 1;  // a sender may be done before the other end has looked
      communicator.all_reduce("pipe", reinterpret_cast<std::byte*>(&sum), 1, DType::f32,
                              Communicator::Reduction::kSum);
    });
  });
  EXPECT_THAT(error, HasSubstr("rank 0: message of 20 u8, tag 3; rank 1: message of 20 u8, tag 4"));
}

// Rank 1 dies while rank 0 computes and lets its messages move: rank 0 continues, and gets the error when it
// waits.
TEST(MeshCommunicator, WhatALostRankLeavesUnderWayIsToldToWhoWaits) {
  const comm::TestPlace place;
  comm::TestRanks processes(3, [&](int rank) -> std::string {
    struct alignas(64) Line {
      std::byte bytes[64];
    };
    std::vector<Line> memory(comm::Recorder::bytes_for(3) / sizeof(Line));
    const std::span<std::byte> recorded = std::as_writable_bytes(std::span(memory));
    comm::Context context({.recorder = std::make_unique<comm::Recorder>(recorded, rank, 3),
                           .transport = place.transport(rank, 3),
                           .hosts = {0, 0, 0}});
    MeshCommunicator communicator(Mesh({{"data", 3}}), context);
    std::vector<float> sent(5, 2), from_1(5), from_2(5);
    if (rank == 1) {  // when the others are ready for it
      for (const int other : {0, 2}) {
        communicator.start_receive(other, bytes_of(sent), size_of(sent), 4);
        communicator.wait(bytes_of(sent));
      }
      raise(SIGKILL);
    }
    communicator.bear_loss_of({1});
    if (rank == 0) {
      communicator.start_receive(1, bytes_of(from_1), size_of(from_1), 3);
      communicator.start_receive(2, bytes_of(from_2), size_of(from_2), 3);
    }
    communicator.start_send(1, bytes_of(sent), size_of(sent), 4);
    communicator.wait(bytes_of(sent));
    if (rank == 2) {
      communicator.start_send(0, bytes_of(sent), size_of(sent), 3);
      communicator.wait(bytes_of(sent));
      return "sent";
    }
    for (int i = 0; i < 2000 && !communicator.is_lost(1); ++i) {
      communicator.progress();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    communicator.progress();
    const std::vector<const std::byte*> lost = {bytes_of(from_1)}, there = {bytes_of(from_2)};
    const bool is_told = !communicator.wait_any(lost).lost.empty();
    return is_told && communicator.wait_any(there).lost.empty() && from_2[4] == 2 ? "good" : "not told";
  });
  const std::vector<std::string> reports = processes.reports();
  EXPECT_EQ(reports[0], "good");
  EXPECT_EQ(reports[1], "signal 9");
  EXPECT_EQ(reports[2], "sent");
}

// Though others are heard of all the time.
TEST(MeshCommunicator, ASilentRankIsLostWhereThatIsBorne) {
  comm::TestPlace place;
  comm::TestRanks processes(3, [&](int rank) -> std::string {
    struct alignas(64) Line {
      std::byte bytes[64];
    };
    std::vector<Line> memory(comm::Recorder::bytes_for(3) / sizeof(Line));
    const std::span<std::byte> recorded = std::as_writable_bytes(std::span(memory));
    comm::Context context({.recorder = std::make_unique<comm::Recorder>(recorded, rank, 3),
                           .transport = place.transport(rank, 3),
                           .hosts = {0, 0, 0},
                           .timeout_seconds = 2});
    std::vector<float> from_1(5), from_2(5, 2);  // outlive what is under way
    MeshCommunicator communicator(Mesh({{"data", 3}}), context);
    communicator.bear_loss_of({1});
    try {
      if (rank == 1) {
        std::this_thread::sleep_for(std::chrono::seconds(4));
        communicator.start_receive(0, bytes_of(from_1), size_of(from_1), 3);
        communicator.wait(bytes_of(from_1));
      }
      for (int i = 0; rank == 2 && i < 1000; ++i) {
        communicator.start_send(0, bytes_of(from_2), size_of(from_2), 3);
        communicator.wait(bytes_of(from_2));
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    } catch (const Error& error) {
      return error.what();
    }
    communicator.start_receive(1, bytes_of(from_1), size_of(from_1), 3);
    const std::vector<const std::byte*> awaited = {bytes_of(from_2), bytes_of(from_1)};
    for (int came = 0;; ++came) {
      communicator.start_receive(2, bytes_of(from_2), size_of(from_2), 3);
      const auto arrived = communicator.wait_any(awaited, Communicator::Silence::kOfOne);
      if (arrived.number == 0) continue;
      std::this_thread::sleep_for(std::chrono::seconds(3));  // so that rank 1 hears of it
      return fmt::format("{}: {}", came > 10 ? "in between" : "alone", arrived.lost);
    }
  });
  const std::vector<std::string> reports = processes.reports();
  EXPECT_THAT(reports[0], HasSubstr("in between: "));
  EXPECT_THAT(reports[0], HasSubstr("rank 0 does without rank 1"));
  EXPECT_THAT(reports[1], HasSubstr("rank 0 does without rank 1"));
}

TEST(MeshCommunicator, MessagesOfWhichNoneComesAreAnError) {
  const std::string error = error_of([] {
    comm::run_rank_threads(
        2,
        [](comm::Context& context) {
          MeshCommunicator communicator(Mesh({{"data", 2}}), context);
          std::vector<float> memory(5);
          if (context.rank() == 1) {
            communicator.start_receive(0, bytes_of(memory), size_of(memory), 3);  // that never comes
            return communicator.wait(bytes_of(memory));
          }
          communicator.start_receive(1, bytes_of(memory), size_of(memory), 3);
          const std::vector<const std::byte*> awaited = {bytes_of(memory)};
          communicator.wait_any(awaited);
        },
        /*timeout_seconds=*/0.3);
  });
  EXPECT_THAT(error, ::testing::AnyOf(HasSubstr("none of 1 messages has come"), HasSubstr("nothing moved")));
}

TEST(MeshCommunicator, ARankThatDoesNotAnswerIsNamed) {
  const std::string error = error_of([] {
    comm::run_rank_threads(
        2,
        [](comm::Context& context) {
          MeshCommunicator communicator(Mesh({{"pipe", 2}}), context);
          if (context.rank() == 1) throw_error("rank 1 gives up");
          std::vector<float> data(5);
          communicator.start_receive(1, bytes_of(data), size_of(data), 0);
          communicator.wait(bytes_of(data));
        },
        /*timeout_seconds=*/5);
  });
  EXPECT_THAT(error, HasSubstr("rank 1"));
}

// The two stages that share an embedding: first and last of each pipeline.
TEST(MeshCommunicator, AGroupIsMadeFromAList) {
  comm::run_rank_threads(6, [](comm::Context& context) {
    MeshCommunicator communicator(Mesh({{"pipe", 3}, {"data", 2}}), context);
    const int stage = context.rank() / 2, column = context.rank() % 2;
    if (stage == 1) return;
    const std::vector<int> ends = {column, 4 + column};
    communicator.add_group("tied", ends);
    communicator.add_group("tied", ends);
    float sum = static_cast<float>(context.rank());
    communicator.all_reduce("tied", reinterpret_cast<std::byte*>(&sum), 1, DType::f32,
                            Communicator::Reduction::kSum);
    EXPECT_EQ(sum, static_cast<float>(4 + 2 * column));
    EXPECT_THAT(error_of([&] { communicator.add_group("tied", {context.rank()}); }),
                HasSubstr("give this one another name"));
  });
}

}  // namespace
}  // namespace trireme
