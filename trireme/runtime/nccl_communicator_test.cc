// NCCL's words for ours, without a GPU; with one, every call over an axis of one rank, which is all that NCCL
// does on one GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/error_of.h"
#include "trireme/comm/context.h"
#include "trireme/runtime/device.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/runtime/nccl.h"
#include "trireme/runtime/nccl_library.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using Reduction = Communicator::Reduction;

TEST(Nccl, TypesHaveTheSameSizes) {
  EXPECT_EQ(nccl_type(DType::f64), ncclDouble);
  EXPECT_EQ(nccl_type(DType::f32), ncclFloat);
  EXPECT_EQ(nccl_type(DType::f16), ncclHalf);
  EXPECT_EQ(nccl_type(DType::bf16), ncclBfloat16);
  EXPECT_EQ(nccl_type(DType::i64), ncclInt64);
  EXPECT_EQ(nccl_type(DType::i32), ncclInt);
  EXPECT_EQ(nccl_type(DType::u8), ncclUint8);
  EXPECT_EQ(nccl_reduction(Reduction::kSum), ncclSum);
  EXPECT_EQ(nccl_reduction(Reduction::kMax), ncclMax);
}

class NcclOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
  // Of one rank, on a GPU, with collectives over these axes.
  void with_communicator(const std::vector<std::string>& axes,
                         const std::function<void(Communicator&, Device&, Stream&)>& body) {
    comm::run_rank_threads(1, [&](comm::Context& context) {
      MeshCommunicator host(Mesh({{"data", 1}, {"tensor", 1}}), context);
      const std::unique_ptr<Device> device = make_device({.kind = "cuda", .links = comm::DeviceLinks::nccl});
      const std::unique_ptr<Stream> stream = device->make_stream();
      const std::unique_ptr<Communicator> made =
          device->reached_by(host, *stream, {.rank = 0, .groups = axes, .ways = {}});
      body(*made, *device, *stream);
    });
  }
};

TEST_F(NcclOnGpu, CallsOverAnAxisOfOneKeepWhatIsThere) {
  with_communicator({"data", "tensor"}, [](Communicator& communicator, Device& device, Stream& stream) {
    std::vector<float> given(100'000);
    std::iota(given.begin(), given.end(), 1.0F);
    const auto count = std::ssize(given);
    const size_t bytes = given.size() * sizeof(float);
    const Buffer data = device.allocate(bytes), other = device.allocate(bytes);
    stream.upload(data.data(), given.data(), bytes);
    stream.upload(other.data(), std::vector<float>(given.size()).data(), bytes);
    for (int i = 0; i < 20; ++i) {
      communicator.start(
          {CollectiveKind::kAllReduce, "data", data.data(), count, DType::f32, Reduction::kSum});
      communicator.wait(data.data());
      communicator.start(
          {CollectiveKind::kAllReduce, "tensor", data.data(), count, DType::f32, Reduction::kMax});
      communicator.wait(data.data());
      communicator.reduce_scatter("data", data.data(), count, DType::f32, Reduction::kSum);
      communicator.all_gather("tensor", data.data(), count, DType::f32);
      communicator.progress();
    }
    communicator.all_to_all({.axis = "data",
                             .from = data.data(),
                             .given = {count},
                             .to = other.data(),
                             .gotten = {count},
                             .dtype = DType::f32});
    std::vector<float> found(given.size());
    stream.download(found.data(), other.data(), bytes);
    EXPECT_EQ(found, given);
    EXPECT_EQ(communicator.take_bytes(), 0U);  // nothing leaves a rank that is alone
    EXPECT_FALSE(communicator.adds_in_pairs());
  });
}

TEST_F(NcclOnGpu, WhatWasNotJoinedIsRefused) {
  with_communicator({"data"}, [](Communicator& communicator, Device& device, Stream&) {
    const Buffer data = device.allocate(64);
    EXPECT_THAT(error_of([&] {
                  communicator.start({CollectiveKind::kAllGather, "tensor", data.data(), 16, DType::f32});
                }),
                HasSubstr("not joined the ranks of 'tensor'"));
    EXPECT_THAT(error_of([&] { communicator.start_send(3, data.data(), 64, 0); }),
                HasSubstr("not joined rank 0 to rank 3"));
    EXPECT_THAT(error_of([&] { communicator.add_group("tied", {0}); }), HasSubstr("too late"));
  });
}

}  // namespace
}  // namespace trireme
