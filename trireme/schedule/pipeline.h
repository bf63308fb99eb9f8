// Pipeline: which stage holds which chunk of the model, and what each stage does in which order in a step.
// Plain data; one small function per kind of schedule makes it (pipeline_schedules.h), pipeline_table.h finds
// them by name, verify_pipeline.h holds them to what must be true, timeline.h says when what happens, draw.h
// shows it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

enum class Phase {
  kForward,
  kBackward,  // for inputs and weights or, where a schedule has turns of kWeight, for inputs alone
  kWeight,    // backward for weights
  kUpdate,    // asynchronous schedules alone: that of the others comes once, after all turns of a step
};
std::string_view name(Phase phase);  // "forward"

// What a stage does at a time.
struct ChunkTurn {
  Phase phase = Phase::kForward;
  int chunk = 0;
  // Counted from the first of the step. An asynchronous schedule begins with microbatches of later steps
  // before all of this one came back; those have numbers from Pipeline::microbatches on. That of an update is
  // the last whose gradient goes into it.
  int64_t microbatch = 0;
  // Of the chunk's weights: that which is read, by an update that which it makes. Version 0 is what the step
  // began with, and every update makes the next; below 0 are those of earlier steps.
  int64_t version = 0;

  friend bool operator==(const ChunkTurn&, const ChunkTurn&) = default;
};
std::string to_string(const ChunkTurn& turn);  // "forward of chunk 2, microbatch 5"

// Microbatches of a chunk ascend in every phase on every stage: gradients are added up in the order of one
// rank, and what a microbatch keeps can lie in slots that are taken and freed in turn.
struct Pipeline {
  int64_t microbatches = 1;  // of a step
  int chunks = 1;            // of the model, numbered in the order of the forward pass
  // Of each stage: its chunks. Where several stages hold a chunk (chimera), each microbatch is computed by
  // one of them, and what they add up has to be added over them before the update.
  std::vector<std::vector<int>> holds;
  std::vector<std::vector<ChunkTurn>> order;  // of each stage: its turns of a step

  int stages() const { return static_cast<int>(holds.size()); }
};

// What a schedule is made for.
struct PipelineShape {
  int stages = 1;
  int64_t microbatches = 1;  // of a step
  int chunks_per_stage = 0;  // 0: as many as the schedule has if nothing else is said
  // pipedream: a stage computes a microbatch with its newest weights, or with those of the same version as
  // the first stage did.
  enum class Versions { kNewest, kVerticalSync } versions = Versions::kNewest;
};

// One stage that has all chunks and takes microbatches after one another: what a rank computes chunk by
// chunk.
Pipeline one_stage(int chunks, int64_t microbatches);

// `steps` steps after one another as one, from the empty pipeline until it is empty again, with no drain
// between them where the schedule knows none: what belongs to steps before the first and after the last is
// left out. One step of a synchronous schedule is what it was.
struct Unrolled {
  Pipeline whole;
  // Of each stage: the turn at which each step begins, and the end; what comes before the first step fills
  // the pipeline.
  std::vector<std::vector<int>> begins;
};
Unrolled unroll_with_begins(const Pipeline& pipeline, int64_t steps);
inline Pipeline unroll(const Pipeline& pipeline, int64_t steps) {
  return unroll_with_begins(pipeline, steps).whole;
}

// Whether any stage has a turn of it.
bool has_phase(const Pipeline& pipeline, Phase phase);
// Whether stages go on to later steps before all others have updated their weights.
inline bool is_asynchronous(const Pipeline& pipeline) {
  return has_phase(pipeline, Phase::kUpdate);
}

}  // namespace trireme
