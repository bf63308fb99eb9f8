// Frames from an Outbox to an Inbox, without sockets, with one bit flipped on the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "trireme/comm/collective/call.h"
#include "trireme/comm/transport/tcp/inbox.h"
#include "trireme/comm/transport/tcp/outbox.h"

namespace trireme::comm {
namespace {

const Label kLabel{make_stream(3, 17), Call{.collective = Collective::barrier}.pack()};

struct NoOwner final : Inbox::Owner {
  void control(int, const FrameHeader&, std::string_view) override {}
  void unexpected(int, Label) override {}
};

std::vector<std::byte> frame_of(const std::vector<uint32_t>& numbers) {
  Outbox outbox;
  Request request{.done = false,
                  .label = kLabel,
                  .data = reinterpret_cast<std::byte*>(const_cast<uint32_t*>(numbers.data())),
                  .bytes = numbers.size() * 4};
  outbox.post(request);
  std::vector<std::byte> frame;
  for (const iovec& piece : outbox.next()) {
    const auto* const begin = static_cast<const std::byte*>(piece.iov_base);
    frame.insert(frame.end(), begin, begin + piece.iov_len);
  }
  outbox.sent(frame.size());
  EXPECT_TRUE(request.done);
  return frame;
}

enum class Way { copied, combined, kept };

// What the inbox says of the frame; "" when it has delivered `numbers`.
std::string arrival(const std::vector<std::byte>& frame, const std::vector<uint32_t>& numbers, Way way) {
  Inbox inbox(0, 1, 1 << 20);
  NoOwner owner;
  std::vector<uint32_t> got(numbers.size());
  Request request{.done = false,
                  .label = kLabel,
                  .data = reinterpret_cast<std::byte*>(got.data()),
                  .bytes = got.size() * 4,
                  .combine = way == Way::combined ? combine_function(DType::i32, ReduceOp::sum) : nullptr};
  try {
    if (way != Way::kept) inbox.post(request);
    std::span<const std::byte> rest(frame);
    rest = rest.subspan(inbox.take(rest.first(sizeof(FrameHeader)), owner));
    if (const auto direct = inbox.direct(); !direct.empty()) {
      std::memcpy(direct.data(), rest.data(), direct.size());
      inbox.took_directly(direct.size());
      rest = rest.subspan(direct.size());
    }
    rest = rest.subspan(inbox.take(rest.first(rest.size() / 16 * 8), owner));
    inbox.take(rest, owner);
    if (way == Way::kept) inbox.post(request);
  } catch (const PeerError& error) {
    EXPECT_FALSE(request.done);
    return error.what();
  }
  return request.done && got == numbers ? "" : "nothing was found";
}

TEST(TcpFrames, EveryBitThatFlipsIsFoundBeforeTheReceiveIsDone) {
  for (const size_t count : {10, 4001}) {  // read into a buffer, and directly to its place
    std::vector<uint32_t> numbers(count);
    for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<uint32_t>(i * 2654435761u);
    std::vector<std::byte> frame = frame_of(numbers);
    const size_t meant = sizeof(FrameHeader) + count * 4;
    for (const Way way : {Way::copied, Way::combined, Way::kept}) {
      ASSERT_EQ(arrival(frame, numbers, way), "");
      for (size_t bit = 0; bit<meant * 8; bit += count> 10 && bit > 512 ? 997 : 1) {
        frame[bit / 8] ^= std::byte{1} << bit % 8;
        EXPECT_THAT(
            arrival(frame, numbers, way),
            testing::HasSubstr(bit < sizeof(FrameHeader) * 8
                                   ? "rank 0 got from rank 1 what is no frame"
                                   : "rank 0 got other bytes than rank 1 sent: barrier (group 3, number 17)"))
            << bit;
        frame[bit / 8] ^= std::byte{1} << bit % 8;
      }
    }
  }
}

}  // namespace
}  // namespace trireme::comm
