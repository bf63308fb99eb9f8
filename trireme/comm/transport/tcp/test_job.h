// For tests: a job of processes with a TcpTransport each.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trireme/comm/transport/tcp/tcp.h"
#include "trireme/comm/wire/tcp_rendezvous.h"
#include "trireme/comm/wire/test_ranks.h"

namespace trireme::comm {

// Where a job meets; made before its processes are.
struct TestPlace {
  Descriptor listener = listen_on("127.0.0.1:0");
  std::string address = local_address(listener.get());
  Secret secret = Secret::generate();
  double timeout_seconds = 20;

  TcpRendezvousOptions rendezvous(int rank, int ranks, uint32_t generation = 0) const {
    return {.secret = secret,
            .membership = {.generation = generation, .rank = rank, .ranks = ranks},
            .address = address,
            .listener = rank == 0 ? dup(listener.get()) : -1,
            .timeout_seconds = timeout_seconds};
  }
  std::unique_ptr<TcpTransport> transport(int rank, int ranks, uint32_t generation = 0) const {
    TcpRendezvous meeting(rendezvous(rank, ranks, generation));
    return std::make_unique<TcpTransport>(
        meeting, TcpOptions{.secret = secret, .generation = generation, .timeout_seconds = timeout_seconds});
  }
};

// Runs the body on every rank; its text is the rank's report.
class TestJob {
 public:
  using Body = std::function<std::string(Transport& transport)>;
  TestJob(int ranks, const Body& body)
      : processes(ranks, [this, ranks, body](int rank) {
          const auto transport = place.transport(rank, ranks);
          return body(*transport);
        }) {}
  std::vector<std::string> reports(double seconds = 60) { return processes.reports(seconds); }

  TestPlace place;
  TestRanks processes;
};

inline Clock::time_point test_deadline() {
  return Clock::now() + std::chrono::seconds(30);
}

template <typename Done>
void move_until(Transport& transport, const Done& done) {
  const auto deadline = test_deadline();
  while (!done()) {
    if (!transport.progress()) transport.idle(deadline);
    if (Clock::now() > deadline) throw Error("not done in 30 s");
  }
}
inline void wait(Transport& transport, const Request& request) {
  move_until(transport, [&] { return request.done; });
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}
template <typename T>
std::span<std::byte> writable_bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

// `count` numbers that depend on all of these.
inline std::vector<float> numbers(size_t count, int from, int salt) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 31 + from * 7 + salt) % 1000);
  return values;
}

}  // namespace trireme::comm
