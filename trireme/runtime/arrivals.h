// Runs the lists of a Program that messages decide the order of, as its policy says
// (exchange/arrival_policy.h). Which messages were taken in which step is all that chance decides: it is
// recorded here, and a run whose order was recorded is made again with the same bits. States are reached
// through the Executor, on whatever device they are.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trireme/exchange/arrival_policy.h"
#include "trireme/runtime/runner.h"

namespace trireme {

class ArrivalDriver final : private ListDriver {
 public:
  using Why = ArrivalPolicy::Why;
  // Null where the rank is in step with others, or runs its lists in every step, as a worker does. `host`
  // reaches the memory of this process. `replay`: what this rank took in the run that is made again. All that
  // is given outlives it.
  static std::unique_ptr<ArrivalDriver> make(const PolicyPlace& place, Runner& runner, Communicator* host,
                                             std::optional<ArrivalOrder> replay = {});
  // Before finish(), as after an error, it ends the job: others count on this rank.
  ~ArrivalDriver() override;
  ArrivalDriver(const ArrivalDriver&) = delete;
  ArrivalDriver& operator=(const ArrivalDriver&) = delete;

  // Makes gradients and the update with this number, on a slot, at the learning rate divided by this.
  using Update = std::function<void(int64_t number, int64_t slot, double divisor)>;
  // One step, counted from 0. Throws Error when all ranks that could send something are lost, and when the
  // order that is replayed can not be.
  void step(int64_t step, const Update& update);
  // After the last step, which may be another one on each rank: until nobody sends anything any more. Once.
  void finish(Why why);

  bool is_asked_to_stop() const { return policy_->is_asked_to_stop(); }  // by another rank
  // Of a step, counted from 1. What finish() took stands behind the last one.
  const Arrivals& arrivals(int64_t step) { return order_[step]; }
  ArrivalOrder take_order() { return std::exchange(order_, {}); }              // since this was last asked
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }  // who was lost, for people
  // Of what the last step took.
  struct Staleness {
    int64_t taken = 0, sum = 0, most = 0;
    double mean() const {
      return static_cast<double>(sum) / static_cast<double>(std::max<int64_t>(1, taken));
    }
  };
  const Staleness& staleness() const { return staleness_; }

 private:
  // Where one of a list lies.
  struct Message {
    const State* state;
    size_t offset;  // among the state's slots
    std::byte* memory;
  };

  ArrivalDriver(const PolicyPlace& place, Runner& runner, Communicator& host,
                std::optional<ArrivalOrder> replay);

  std::optional<float> take(int rank) override;
  Arrival take_first_of(const std::vector<int>& ranks) override;
  bool expect(int rank, int64_t slot) override;
  void begin_telling(int rank, int64_t slot) override;
  bool tell(int rank) override;
  void run(When::What what, int64_t slot) override;
  void update(int64_t number, int64_t slot, double divisor) override;
  void set(std::string_view input, float value) override { executor_.tell(input, value); }
  void set_status(int rank, int64_t slot, float status) override;
  void clear(int rank, int64_t slot) override;
  void agree_on_largest(std::vector<int64_t>& numbers) override;
  void note_staleness(int64_t steps) override;

  Message message(const When& list, int64_t slot) const;
  float taken(int rank);
  int first_of(const std::vector<int>& ranks);
  int first_replayed(const std::vector<int>& ranks);
  template <typename Send>
  bool reaches(int rank, const Send& send);
  void lose(int rank, const std::string& why, ArrivalPolicy::Lost how);
  void expect_somebody() const;
  // Sends are through before what they send is made anew.
  void await_sends(const std::byte* memory);
  void await_sends_before(const ActionList& list, int64_t slot);

  bool replays() const { return replay_ && (!ending_ || policy_->is_replayed_at_end()); }
  const Arrivals& replayed() const;
  std::optional<int> next_replayed() const;
  void lose_replayed(int rank);
  [[noreturn]] void refuse_replay(int rank) const;

  Executor& executor_;
  Runner& runner_;
  Communicator &communicator_, &host_;  // of the states' memory; of this process's
  const int rank_;
  const int64_t senders_;  // ranks that messages come from
  const Communicator::Silence silence_;
  const std::optional<ArrivalOrder> replay_;
  std::map<int, Message> expected_;        // by rank
  std::map<const std::byte*, int> sends_;  // under way
  std::set<int> lost_;
  int64_t number_ = 0;  // of this step, counted from 1
  ArrivalOrder order_;
  Staleness staleness_;
  std::vector<std::string> notes_;
  const Update* update_ = nullptr;  // of this step
  bool ending_ = false, finished_ = false;
  std::unique_ptr<ArrivalPolicy> policy_;
};

}  // namespace trireme
