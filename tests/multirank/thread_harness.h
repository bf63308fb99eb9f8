// The conformance suite with ranks as threads, for transports that stand on InprocHub.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/multirank/conformance.h"
#include "trireme/comm/transport/inproc/inproc.h"

namespace trireme::comm {

class ThreadHarness final : public Harness {
 public:
  using Make = std::function<std::unique_ptr<Transport>(std::shared_ptr<InprocHub> hub, int rank)>;

  // For 1 to `most_ranks` ranks.
  ThreadHarness(std::string name, int most_ranks, Make make)
      : name_(std::move(name)), most_ranks_(most_ranks), make_(std::move(make)) {}

  std::string_view name() const override { return name_; }
  std::vector<int> rank_counts() const override {
    std::vector<int> counts;
    for (int ranks = 1; ranks <= most_ranks_; ++ranks) counts.push_back(ranks);
    return counts;
  }
  std::vector<std::string> run(int ranks, const Body& body) override {
    const auto hub = std::make_shared<InprocHub>(ranks);
    std::mutex mutex;
    std::vector<std::string> failures;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const std::unique_ptr<Transport> transport = make_(hub, rank);
          body(*transport);
        } catch (const std::exception& error) {
          const std::lock_guard lock(mutex);
          failures.push_back(fmt::format("rank {}: {}", rank, error.what()));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return failures;
  }

 private:
  std::string name_;
  int most_ranks_;
  Make make_;
};

}  // namespace trireme::comm
