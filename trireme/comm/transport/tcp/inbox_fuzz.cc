// The frame parser on any bytes, cut anywhere, with receives posted before, between and after: it takes them,
// waits for more or throws PeerError, never writes outside of a receive, and keeps no more than its budget.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <vector>

#include "trireme/comm/transport/tcp/inbox.h"

namespace trireme::comm {
namespace {

constexpr size_t kBudgetBytes = 4096;

class QuietOwner final : public Inbox::Owner {
 public:
  void control(int, const FrameHeader& header, std::string_view payload) override {
    TRIREME_CHECK(payload.size() == header.bytes);
    TRIREME_CHECK(payload.size() <= kMaxControlBytes);
  }
  void unexpected(int, Label) override {}
};

// Its memory is exactly as large as promised, for the address sanitizer to watch.
struct Receive {
  Receive(size_t bytes, Combine combine) : memory(bytes / 8) {
    request = {.done = false,
               .label = {bytes % 3, 0},
               .data = reinterpret_cast<std::byte*>(memory.data()),
               .bytes = memory.size() * 8,
               .combine = combine};
  }
  std::vector<double> memory;
  Request request;
};

// Makes the checksums of frames right whose header can be one, for else hardly any would get past them. A
// header with `payload_crc` 1 keeps it, and one with `header_crc` 1 ends that.
void set_checksums(std::span<uint8_t> stream) {
  while (stream.size() >= sizeof(FrameHeader)) {
    FrameHeader header;
    std::memcpy(&header, stream.data(), sizeof header);
    if (header.header_crc == 1) return;
    const size_t payload = std::min<size_t>(header.bytes, stream.size() - sizeof header);
    if (header.payload_crc != 1)
      header.payload_crc = crc32c(std::as_bytes(stream.subspan(sizeof header, payload)));
    header.header_crc = crc_of(header);
    std::memcpy(stream.data(), &header, sizeof header);
    stream = stream.subspan(std::min(stream.size(), frame_bytes(payload)));
  }
}

}  // namespace
}  // namespace trireme::comm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme::comm;
  if (size < 8) return 0;
  const std::span<const uint8_t> plan(data, 8);
  std::vector<uint8_t> bytes(data + 8, data + size);
  set_checksums(bytes);
  std::span<const uint8_t> stream(bytes);

  QuietOwner owner;
  Inbox inbox(0, 1, kBudgetBytes);
  std::deque<Receive> receives;
  const auto post = [&](uint8_t what) {
    const Combine add = combine_function(trireme::DType::f64, ReduceOp::sum);
    inbox.post(receives.emplace_back(what / 2 * 8, what % 2 ? add : nullptr).request);
  };
  std::vector<uint64_t> memory;
  std::vector<std::byte> carry;
  size_t round = 0;
  try {
    while (!stream.empty()) {
      const uint8_t step = plan[round++ % plan.size()];
      if (step % 4 == 0) post(step / 4);
      if (step % 61 == 1) inbox.discard();
      const size_t piece = std::min<size_t>(step + 1, stream.size());
      const auto direct = inbox.direct();
      if (!direct.empty() && carry.empty()) {
        const size_t directly = std::min(piece, direct.size());
        std::memcpy(direct.data(), stream.data(), directly);
        inbox.took_directly(directly);
        stream = stream.subspan(directly);
        TRIREME_CHECK(inbox.take({}, owner) == size_t{0});
        continue;
      }
      // What was left last time and the next piece, where the position says.
      const size_t offset = inbox.position() % 8;
      memory.assign((carry.size() + piece + offset) / 8 + 1, 0);
      std::byte* const start = reinterpret_cast<std::byte*>(memory.data()) + offset;
      std::copy(carry.begin(), carry.end(), start);
      std::memcpy(start + carry.size(), stream.data(), piece);
      const size_t given = carry.size() + piece;
      stream = stream.subspan(piece);
      const size_t taken = inbox.take({start, given}, owner);
      TRIREME_CHECK(taken <= given);
      if (!inbox.held()) TRIREME_CHECK(given - taken < sizeof(FrameHeader));
      carry.assign(start + taken, start + given);
    }
  } catch (const PeerError&) {
  }
  return 0;
}
