// The clients of federated averaging (fedavg): how many are drawn for a round, and who of the replicas trains
// which of them, in which steps. A function of the plan alone, so that all ranks, the simulator and the
// loader know it without a word.
//
//   clients: 10, fraction: 0.6, on 4 replicas, steps: 2     rounds of 2 turns of 2 steps:
//   replica   0        1        2        3
//   turn 0    drawn 0  drawn 1  drawn 2  drawn 3            each starts from the weights of the last round
//   turn 1    drawn 4  drawn 5  -        -                  who has no client makes no steps
#pragma once

#include <cstdint>
#include <optional>

#include "trireme/plan/agreement.h"

namespace trireme {

class Clients {
 public:
  // Of any agreement: where it is not fedavg, every replica is a client and trains itself. Throws Error for
  // fewer clients than replicas.
  Clients(const Agreement& how, int64_t replicas);

  int64_t count() const { return count_; }
  int64_t drawn() const { return drawn_; }  // in a round
  int64_t turns() const { return (drawn_ + replicas_ - 1) / replicas_; }
  bool leave_some_idle() const { return drawn_ % replicas_ != 0; }
  // How many of a round's turns a replica has a client in; and of all replicas' turns, the share of these.
  int64_t turns_of(int64_t replica) const { return (drawn_ - replica + replicas_ - 1) / replicas_; }
  double busy_share() const { return static_cast<double>(drawn_) / static_cast<double>(turns() * replicas_); }

  // The one that a replica trains in a step, both counted from 0; none: it makes no step.
  std::optional<int64_t> trained(int64_t step, int64_t replica) const;
  // In how many steps before this one it was trained.
  int64_t steps_before(int64_t step, int64_t client) const;

 private:
  int64_t turn_of(int64_t step) const { return step / period_ % turns(); }
  // The place of a client among those that are drawn for a round; and the client in a place.
  std::optional<int64_t> place_of(int64_t round, int64_t client) const;
  int64_t client_in(int64_t round, int64_t place) const;

  int64_t replicas_, count_, drawn_, period_ = 1;
  uint64_t seed_ = 0;
};

}  // namespace trireme
