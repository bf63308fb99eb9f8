// Which states rest in files together, and which staging slots they take: groups of a kind take the kind's
// slots in turn, so that a segment never needs two groups in one slot.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/passes/offload.h"
#include "trireme/plan/plan.h"
#include "trireme/program/program.h"

namespace trireme {

class FileGroups {
 public:
  explicit FileGroups(const Plan::Offload& offload) : offload_(offload) {}

  // What the part of an update by that name has of the optimizer; where it is a piece, the next `rows` rows.
  void add_optimizer(const std::string& part, const std::vector<std::string>& states, int64_t rows);
  // What a part leaves for others of its chunk rests beside the chunk's gradients.
  void add_kept(const UpdatePart& part);
  // Where the plan says so, the weights of each chunk, and its gradients. Comes last.
  void add_chunks(const Graph& update, const ChunksInFiles& chunks);

  FileStateNames take() { return std::move(groups_); }

 private:
  struct Slots {
    int first, count;
  };
  static const Slots kOptimizer, kGradients, kWeights;
  StatesInFile& add(const Slots& slots, std::string name, std::vector<std::string> states);

  const Plan::Offload& offload_;
  FileStateNames groups_;
  std::map<int, std::vector<std::string>> kept_;  // by chunk
};

}  // namespace trireme
