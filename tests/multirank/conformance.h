// The conformance suite: what every transport has to do, alone and under the engine. The cases are the same
// for all; a Harness is what one transport needs to run them: threads, forked processes, or a job of mpirun.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm {

// One rank of a case. It throws when something is wrong; it returns when this rank is done.
using Body = std::function<void(Transport&)>;

struct Case {
  std::string name;  // "collectives/ring/4"
  int ranks = 1;
  Body body;
};

class Harness {
 public:
  virtual ~Harness() = default;
  virtual std::string_view name() const = 0;
  // The sizes of jobs that are worth their time here, ascending.
  virtual std::vector<int> rank_counts() const = 0;
  // Runs the body on each rank of a new job, each with its own transport. Returns one line for each rank that
  // threw or died, "rank 2: …"; nothing when all went well.
  virtual std::vector<std::string> run(int ranks, const Body& body) = 0;
};

// All cases for jobs of these sizes.
std::vector<Case> conformance_cases(std::span<const int> rank_counts);

// Registers every case as a test of its own; call before RUN_ALL_TESTS. The harness outlives the tests.
void register_conformance(Harness& harness);

// For bodies.
template <typename... Args>
void expect(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw_error(format, std::forward<Args>(args)...);
}
// Runs `action`, which must throw a PeerError, and returns it.
PeerError expect_peer_error(const std::function<void()>& action);
void expect_contains(std::string_view text, std::string_view part);

// The parts of the suite, each in the file of its name.
void add_message_cases(std::vector<Case>& cases, std::span<const int> rank_counts);
void add_failure_cases(std::vector<Case>& cases, std::span<const int> rank_counts);
void add_collective_cases(std::vector<Case>& cases, std::span<const int> rank_counts);
void add_group_cases(std::vector<Case>& cases, std::span<const int> rank_counts);
void add_bits_cases(std::vector<Case>& cases, std::span<const int> rank_counts);

}  // namespace trireme::comm
