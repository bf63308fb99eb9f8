// Messages of a device whose memory no transport reaches, here that of a CPU: what has come is known by the
// device's memory, in whatever order it comes.
#include "trireme/runtime/staged_communicator.h"

#include <gtest/gtest.h>

#include "trireme/comm/context.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme {
namespace {

std::byte* start_of(std::vector<float>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}
int64_t length_of(const std::vector<float>& values) {
  return static_cast<int64_t>(values.size() * sizeof(float));
}

TEST(StagedCommunicator, KnowsWhichMessageHasCome) {
  comm::run_rank_threads(3, [](comm::Context& context) {
    MeshCommunicator host(Mesh({{"data", 3}}), context);
    const std::unique_ptr<Device> device = make_cpu_device(1);
    const std::unique_ptr<Stream> stream = device->make_stream();
    StagedCommunicator communicator(host, *stream);
    std::vector<float> own(5, static_cast<float>(context.rank())), from_1(5), from_2(5);
    if (context.rank() > 0) {
      if (context.rank() == 1) context.world().barrier().wait();
      communicator.start_send(0, start_of(own), length_of(own), 3);
      own.assign(own.size(), 9);  // what is sent was copied
      communicator.wait(start_of(own));
      if (context.rank() == 2) context.world().barrier().wait();
      return;
    }
    communicator.start_receive(1, start_of(from_1), length_of(from_1), 3);
    communicator.start_receive(2, start_of(from_2), length_of(from_2), 3);
    EXPECT_FALSE(communicator.try_wait(start_of(from_1)));
    std::vector<const std::byte*> awaited = {start_of(from_1), start_of(from_2)};
    EXPECT_EQ(communicator.wait_any(awaited, Communicator::Silence::kOfAll).number, 1u);
    EXPECT_EQ(from_2[4], 2);
    EXPECT_EQ(from_1[4], 0);
    context.world().barrier().wait();  // now rank 1 sends
    while (!communicator.try_wait(start_of(from_1))) {
    }
    EXPECT_EQ(from_1[4], 1);
  });
}

}  // namespace
}  // namespace trireme
