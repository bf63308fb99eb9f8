// Gradients that are made twice before they are believed (train.recheck_every): the same computation has the
// same bits, so where it has not, a bit flipped in the memory of a rank or on its way, or a processor is at
// fault. Then they are made once more, and what was made twice alike counts.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/mesh/mesh.h"
#include "trireme/runtime/executor.h"
#include "trireme/runtime/hashed_communicator.h"
#include "trireme/train/bad_numbers.h"

namespace trireme {

class GradientCheck {
 public:
  // Every so many steps; and whenever the norm of the gradients that a rank has is far above those before.
  // `traffic` is what the executor talks through; null for a rank alone. Both outlive this. Throws Error
  // where gradients can not be made again, because to make them changes what a step begins with.
  GradientCheck(int64_t every, Executor& executor, HashedCommunicator* traffic);

  // `make` makes the gradients of a step, which counts from 0. Afterwards they are there, and are to be
  // believed. Returns what was wrong before, and with which rank, as a sentence for people; "" where nothing
  // was. Throws Error on all ranks where no two are alike, or where weights or states of the optimizer
  // changed meanwhile. Collective.
  std::string make(int64_t step, const std::function<void()>& make);

 private:
  struct Made {
    std::vector<HashedTraffic> traffic;  // and behind it, the gradients
    double squares = 0;                  // of the gradients
    std::optional<BadNumbers> bad = {};
  };
  Made made_by(const std::function<void()>& make);
  bool any(bool own) const;  // of all ranks
  bool is_suspicious(const Made& made) const;
  void believe(const Made& made);
  uint64_t hash_of_state(const State& state, double* squares = nullptr);
  std::vector<uint64_t> hashes_of(const std::vector<const State*>& states);
  void require_unchanged(int64_t step, const std::vector<uint64_t>& before);
  const Program& program() const { return executor_.program(); }
  std::string who_differs(const Made& one, const Made& other) const;
  std::vector<int64_t> of_all_ranks(int64_t own) const;  // by rank

  const int64_t every_;
  Executor& executor_;
  HashedCommunicator* traffic_;
  std::vector<const State*> gradients_, lasting_;
  std::vector<std::byte> piece_;  // of a state, on its way
  std::deque<double> usual_;      // squares of the last steps
};

}  // namespace trireme
