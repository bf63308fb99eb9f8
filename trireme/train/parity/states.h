// The states of a run as whole tensors in host memory, by name: of one rank, or of all ranks of a plan.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/mesh/mesh.h"
#include "trireme/train/trainer.h"

namespace trireme::parity {

using States = std::map<std::string, std::vector<float>, std::less<>>;

// What lasts from step to step: weights, buffers, moments. And what the forward and backward parts leave for
// the update: gradients, loss, count, and what buffers will become.
enum class StateGroup { kLasting, kLeft };
// In the order in which the program makes them.
std::vector<std::string> states_of(const Program& program, StateGroup group);

// Of a program that has all states whole.
States read_states(Trainer& trainer, const std::vector<std::string>& names);
// Gives a rank its part of each.
void write_states(Trainer& trainer, const States& states);

// The same bits, or both not a number: which of the many NaNs it is means nothing.
bool same(float a, float b);
bool same(const std::vector<float>& a, const std::vector<float>& b);

// Puts the parts of all ranks together. Ranks that are threads take turns.
class Gathering {
 public:
  void add(Trainer& trainer, const std::vector<std::string>& names, const Mesh& mesh, int rank);

  // What every rank should have the same.
  void add(const std::string& name, double value, int rank);

  // The sums of addends where ranks have such; NaN for an element that no rank has.
  States whole() const;
  // How far another order of adding up could move each element: a unit in the last place (of f32 2^-23)
  // · √addends · Σ|addend|; zero where there is nothing to add up.
  States reach() const;
  // Two ranks that should have the same and have not: "rank 2 has 0.5 and rank 0 has 0.25 at …"; "" if none.
  const std::string& disagreement() const { return disagreement_; }

 private:
  struct Addend {
    std::vector<float> values;
    std::vector<int> owner;  // per element, −1: nobody yet
    double unit = 0;         // in the last place of their format
  };
  void put(Addend& addend, int64_t element, float value, int rank, const std::string& name);

  // Addends by the state that has them and coordinates along axes of sums.
  std::map<std::string, std::map<std::pair<std::string, int>, Addend>, std::less<>> states_;
  std::string disagreement_;
};

}  // namespace trireme::parity
