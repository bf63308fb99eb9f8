// What a plan makes of a model, for people: what each stage has, keeps and sends, and how long its turns take
// beside one another. Reckoned from Programs, so that it is what will be run.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "trireme/passes/cut.h"
#include "trireme/program/program.h"
#include "trireme/schedule/timeline.h"

namespace trireme {

struct StageSummary {
  std::vector<std::string> units;                        // parts of the model, in order; empty for one stage
  int64_t parameters = 0;                                // elements on one rank
  double work = 0;                                       // of a step, of all stages' on average: 1
  std::map<std::string, size_t> bytes_by_role;           // of states: weights, gradients, …
  size_t working = 0, comm = 0, inputs = 0, peak = 0;    // bytes
  size_t in_files = 0;                                   // bytes of states that the plan offloads
  double sent_in_collectives = 0, sent_in_messages = 0;  // bytes, in a step
  // The same by axis of the mesh; messages count to the first along which their ends differ.
  std::map<std::string, double> sent_along = {};
};

// `ranks` has one rank's program of each stage, in order; one program where there is no pipeline.
std::vector<StageSummary> summarise(std::span<const Program> ranks, const Cut& cut);

// Parameters that lie alike, told once: "h.*.attn.c_attn.weight".
struct LyingAlike {
  std::string name;  // with * for numbers
  Shape whole, own;
  std::set<std::string> names;
  std::vector<std::string> axes = {};  // of the mesh, that split them
  std::set<int> programs = {};         // of those given, that have them; counted from 0
};
std::vector<LyingAlike> parameters_of(std::span<const Program> ranks);

// The costs of each chunk's turns, FLOPs or bytes moved, whichever weigh more (passes/cut.h). The unit means
// nothing; messages are not in it.
std::vector<ChunkTimes> chunk_costs(std::span<const Program> ranks, const Pipeline& pipeline);

}  // namespace trireme
