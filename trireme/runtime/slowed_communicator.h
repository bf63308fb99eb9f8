// Makes a rank as slow as a machine that computes so many times slower: between two calls it waits for as
// long as it computed, times the factor less one. For trying out what the others make of a straggler.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "trireme/runtime/wrapping_communicator.h"

namespace trireme {

// `--slow rank=2,factor=3`.
struct SlowRank {
  int rank = 0;
  double factor = 1;

  friend bool operator==(const SlowRank&, const SlowRank&) = default;
};
// Throws Error if the text is not of this form; `ranks` is the number of ranks in the job.
SlowRank parse_slow_rank(std::string_view text, int ranks);

class SlowedCommunicator final : public WrappingCommunicator {
 public:
  // Over another one, which outlives it.
  SlowedCommunicator(Communicator& inner, double factor) : WrappingCommunicator(inner), factor_(factor) {}

  void start(const Collective& collective) override {
    const Call call(*this);
    inner_.start(collective);
  }
  void start_send(int peer, const std::byte* data, int64_t bytes, int tag) override {
    const Call call(*this);
    inner_.start_send(peer, data, bytes, tag);
  }
  void start_receive(int peer, std::byte* data, int64_t bytes, int tag) override {
    const Call call(*this);
    inner_.start_receive(peer, data, bytes, tag);
  }
  void wait(const std::byte* data) override {
    const Call call(*this);
    inner_.wait(data);
  }
  bool try_wait(const std::byte* data) override {
    const Call call(*this);
    return inner_.try_wait(data);
  }
  void progress() override {
    const Call call(*this);
    inner_.progress();
  }
  void all_to_all(const AllToAll& exchange) override {
    const Call call(*this);
    inner_.all_to_all(exchange);
  }

 private:
  using Clock = std::chrono::steady_clock;
  // Waits before a call, and notes when it ended.
  class Call {
   public:
    explicit Call(SlowedCommunicator& of) : of_(of) { of.catch_up(); }
    ~Call() { of_.computes_from_ = Clock::now(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    SlowedCommunicator& of_;
  };
  void catch_up();

  double factor_;
  Clock::time_point computes_from_ = Clock::now();
  std::chrono::duration<double, std::nano> owed_{0};  // to be waited still
};

}  // namespace trireme
