// Ranks as forked processes, for tests of what crosses processes. Everything the parent and the ranks share
// lies in one anonymous mapping, so nothing is left behind.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/wire/rendezvous.h"

namespace trireme::test {

// How a rank ended.
struct RankEnd {
  int exit_code = -1;  // -1: killed by `signal`
  int signal = 0;
  std::string text;    // what body() returned, or the text of the exception it threw
  double seconds = 0;  // from the start of all to the end of this one
  bool ok() const { return exit_code == 0; }
};

// A place for a few words that all ranks and the parent see, zero at first.
constexpr int kSharedWords = 64;

class ForkedRank {
 public:
  virtual ~ForkedRank() = default;
  virtual comm::Rendezvous& rendezvous() = 0;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual int pid_of(int rank) const = 0;  // once all ranks run
  virtual volatile uint64_t* words() = 0;
};

// Forks `ranks` processes that run body() and waits for all; those that still run after the timeout are
// killed and reported with signal 9. A rank exits with 0 when body() returned and with 1 when it threw, or
// when an expectation of GoogleTest failed in it.
std::vector<RankEnd> run_ranks(int ranks, const std::function<std::string(ForkedRank&)>& body,
                               double timeout_seconds = 60);

// Fails the current test for every rank that did not end well.
void expect_all_ok(const std::vector<RankEnd>& ends);

}  // namespace trireme::test
