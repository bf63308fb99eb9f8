// Messages between ranks of a mesh, and groups of ranks that no axis has.
#include "trireme/runtime/mesh_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "trireme/base/error.h"

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
