// Messages of a transport, without the engine: order, matching, sizes, many at once.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/multirank/conformance.h"

namespace trireme::comm {
namespace {

constexpr uint64_t kCall = 0;  // of no interest here, and the same everywhere

void wait_all(Transport& transport, std::span<Request> requests) {
  const auto deadline = Clock::now() + std::chrono::seconds(30);
  for (Request& request : requests) {
    while (!request.done) {
      expect(Clock::now() < deadline, "a request with rank {} was not done after 30 s", request.peer);
      if (!transport.progress()) transport.idle(deadline);
    }
  }
}

void wait_one(Transport& transport, Request& request) {
  wait_all(transport, {&request, 1});
}

std::vector<std::byte> pattern(size_t bytes, uint32_t seed) {
  std::vector<std::byte> data(bytes);
  uint32_t state = seed * 2654435761u + 1;
  for (std::byte& each : data) {
    state = state * 1664525u + 1013904223u;
    each = static_cast<std::byte>(state >> 24);
  }
  return data;
}

void expect_pattern(std::span<const std::byte> data, uint32_t seed) {
  const std::vector<std::byte> expected = pattern(data.size(), seed);
  const auto differ = std::ranges::mismatch(data, expected);
  if (differ.in1 == data.end()) return;
  throw_error("byte {} of {} is {}, expected {}", differ.in1 - data.begin(), data.size(), int(*differ.in1),
              int(*differ.in2));
}

// All to all others and back: sizes around every limit a transport is likely to have.
void sizes(Transport& transport) {
  uint64_t stream = 0;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{7}, size_t{64}, size_t{4095}, size_t{4096},
                             size_t{4097}, size_t{65536}, size_t{100003}, size_t{3 << 20}}) {
    const int ranks = transport.ranks();
    std::vector<std::vector<std::byte>> out, in(ranks);
    std::vector<Request> requests(2 * ranks);
    const Counters before = transport.counters();
    ++stream;
    for (int peer = 0; peer < ranks; ++peer) {
      out.push_back(pattern(bytes, transport.rank() * 100 + peer));
      in[peer].resize(bytes);
    }
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == transport.rank()) continue;
      transport.receive(peer, {stream, kCall}, in[peer], nullptr, requests[peer]);
      transport.send(peer, {stream, kCall}, out[peer], requests[ranks + peer]);
    }
    wait_all(transport, requests);
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer != transport.rank()) expect_pattern(in[peer], peer * 100 + transport.rank());
    }
    const Counters& after = transport.counters();
    expect(after.bytes_sent - before.bytes_sent == bytes * (ranks - 1), "bytes sent are counted wrongly");
    expect(after.bytes_received - before.bytes_received == bytes * (ranks - 1),
           "bytes received are counted wrongly");
    expect(after.messages_sent - before.messages_sent == static_cast<uint64_t>(ranks - 1),
           "messages are counted wrongly");
  }
}

// Many messages of one stream arrive in order, whichever of send and receive comes first.
void order(Transport& transport, bool receives_first) {
  constexpr int kMessages = 300;
  const int peer = transport.rank() ^ 1;
  std::vector<Request> sends(kMessages), receives(kMessages);
  std::vector<std::vector<std::byte>> out, in(kMessages);
  for (int i = 0; i < kMessages; ++i) out.push_back(pattern(static_cast<size_t>(i * i % 5000), i));
  const auto post_receives = [&] {
    for (int i = 0; i < kMessages; ++i) {
      in[i].resize(out[i].size());
      transport.receive(peer, {9, kCall}, in[i], nullptr, receives[i]);
    }
  };
  if (receives_first) post_receives();
  for (int i = 0; i < kMessages; ++i) transport.send(peer, {9, kCall}, out[i], sends[i]);
  for (int i = 0; i < 20; ++i) transport.progress();
  if (!receives_first) post_receives();
  wait_all(transport, sends);
  wait_all(transport, receives);
  for (int i = 0; i < kMessages; ++i) expect_pattern(in[i], i);
}

// Streams are matched, not the order in which messages of different streams were sent.
void streams(Transport& transport) {
  constexpr int kStreams = 40;
  const int peer = transport.rank() ^ 1;
  std::vector<Request> sends(kStreams), receives(kStreams);
  std::vector<std::vector<std::byte>> out, in(kStreams);
  for (int i = 0; i < kStreams; ++i) out.push_back(pattern(static_cast<size_t>(1000 * i), i));
  for (int i = 0; i < kStreams; ++i) transport.send(peer, {make_stream(i % 3, i), kCall}, out[i], sends[i]);
  for (int i = kStreams - 1; i >= 0; --i) {
    in[i].resize(out[i].size());
    transport.receive(peer, {make_stream(i % 3, i), kCall}, in[i], nullptr, receives[i]);
    if (i % 2 == 0) wait_one(transport, receives[i]);
  }
  wait_all(transport, receives);
  wait_all(transport, sends);
  for (int i = 0; i < kStreams; ++i) expect_pattern(in[i], i);
}

// Combining as it comes gives what combining at once gives, for a message that is cut anywhere on its way.
void combines(Transport& transport) {
  const int peer = transport.rank() ^ 1;
  for (const size_t count : {size_t{1}, size_t{1001}, size_t{300001}}) {
    std::vector<int32_t> mine(count), theirs(count);
    std::iota(mine.begin(), mine.end(), transport.rank() * 1000);
    theirs = mine;
    Request requests[2];
    transport.receive(peer, {count, kCall}, std::as_writable_bytes(std::span(theirs)),
                      combine_function(DType::i32, ReduceOp::sum), requests[0]);
    transport.send(peer, {count, kCall}, std::as_bytes(std::span(mine)), requests[1]);
    wait_all(transport, requests);
    for (size_t i = 0; i < count; ++i) {
      const auto wanted = static_cast<int32_t>(2 * i) + (transport.rank() + peer) * 1000;
      expect(theirs[i] == wanted, "element {} is {}, expected {}", i, theirs[i], wanted);
    }
  }
}

// Memory of the transport is what it says, and can be sent from and received into.
void memory(Transport& transport) {
  const int peer = transport.rank() ^ 1;
  const std::unique_ptr<Memory> out = transport.allocate(1 << 20), in = transport.allocate(1 << 20);
  expect(reinterpret_cast<uintptr_t>(out->bytes().data()) % 4096 == 0, "memory is not aligned to 4096");
  for (const std::byte each : in->bytes()) expect(each == std::byte{0}, "memory is not zeroed");
  const std::vector<std::byte> content = pattern(1 << 20, transport.rank());
  std::memcpy(out->bytes().data(), content.data(), content.size());
  Request requests[2];
  transport.receive(peer, {1, kCall}, in->bytes(), nullptr, requests[0]);
  transport.send(peer, {1, kCall}, out->bytes(), requests[1]);
  wait_all(transport, requests);
  expect_pattern(in->bytes(), peer);
}

}  // namespace

void add_message_cases(std::vector<Case>& cases, std::span<const int> rank_counts) {
  for (const int ranks : rank_counts) {
    if (ranks >= 2 && (ranks <= 5 || ranks == 8)) {
      cases.push_back({fmt::format("messages/sizes/{}", ranks), ranks, sizes});
    }
    if (ranks != 2 && ranks != 4) continue;
    const auto add = [&](const char* name, Body body) {
      cases.push_back({fmt::format("messages/{}/{}", name, ranks), ranks, std::move(body)});
    };
    add("order_receives_first", [](Transport& transport) { order(transport, true); });
    add("order_sends_first", [](Transport& transport) { order(transport, false); });
    add("streams", streams);
    add("combines", combines);
    add("memory", memory);
  }
}

}  // namespace trireme::comm
