// The states of all ranks as whole tensors, as checkpoints hold them: so a checkpoint that was saved under
// one plan is loaded under any other. Each rank has room for all of it while it gathers.
#pragma once

#include <list>
#include <span>
#include <string_view>
#include <vector>

#include "trireme/train/trainer.h"

namespace trireme {

class WholeStates {
 public:
  WholeStates(Trainer& trainer, const RankOptions& ranks) : trainer_(trainer), ranks_(ranks) {}

  struct Tensors {
    std::vector<NamedTensor> model;            // weights and buffers
    std::vector<NamedTensor> optimizer;        // moments and velocities
    std::list<std::vector<std::byte>> memory;  // of those that had to be put together
  };
  // Collective over all ranks; every rank gets all of it.
  Tensors gather();

  // Gives every rank its part. Throws Error as SafetensorsFile does.
  void load(const SafetensorsFile& model, const SafetensorsFile& optimizer);

 private:
  std::vector<NamedTensor> gather(std::span<const std::string_view> roles,
                                  std::list<std::vector<std::byte>>& memory);
  void load(const SafetensorsFile& file, std::span<const std::string_view> roles);

  Trainer& trainer_;
  RankOptions ranks_;
};

}  // namespace trireme
